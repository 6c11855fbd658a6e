"""The cloud and the edge node of the demo, in a scratch directory.

Its containers are made from an image of this machine's busybox: they need neither a registry nor a network.
"""

import hashlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

import msgspec

from beehive.clock import RealClock
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.files.removal import remove_tree
from beehive.goarch import goarch
from beehive.node_namespaces import is_machine_root
from edged.cgroups.opening import machine_hierarchies
from edged.volumes import KernelMounts, VolumeError, points_below
from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cli.errors import StatusError, UnreachableError
from modules.cli.rest import APPLY_PATCH, RestClient, object_path
from modules.cloud.apiserver.manifests import items_of
from modules.page.api import About, fleet_api
from modules.page.server import PageServer
from modules.processes.cloudcore.control_client import ControlClient
from modules.processes.cloudcore.page_command import ControlLinks
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.version import VERSION
from modules.processes.demo.asking import ask
from modules.processes.demo.events import Deadline, Events, ExampleChanged
from modules.processes.demo.examples import KINDS, SERVICE, Example, ObjectName, with_own_port
from modules.processes.edgecore.config import PROCESS_ENDPOINT, EdgeCoreConfig
from modules.processes.edgecore.config.edge_mesh import DataPlaneKind
from modules.processes.edgecore.config.names import OCI_ENDPOINT
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.container_runtime import purge_container_runtime
from modules.processes.edgecore.rootless import is_rootless
from modules.processes.edgecore.runtime_choice import Shortfall
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.uninstall.files import pod_uids
from modules.processes.edgecore.uninstall.pods import remove_cgroups
from modules.runtimes.engine.errors import ContainerRuntimeError
from modules.runtimes.shim import kernel
from modules.runtimes.shim.procfs import all_processes, descendants
from modules.runtimes.shim.protocol import Pid

_NODE: Final = kind_named("Node")
_START_SECONDS: Final = 60.0
_LOG_LINES: Final = 15
_LONGEST_DIRECTORY: Final = 60
"""Characters of the scratch directory's path; paths of sockets below it may have 107 bytes."""

BUSYBOX: Final = Path("/bin/busybox")
_INTERPRETER: Final = b"/ld-"
"""Part of the name of the loader, which dynamic programs have near their beginning."""
_HEADERS: Final = 4096
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIRECTORIES: Final = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "var")
_FILES: Final = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "etc/group": b"root:x:0:\n"}

_NAME_SERVER: Final = "127.96.0.53"
_FIRST_PORT, _LAST_PORT = 12_000, 32_000
"""Below the ports that the kernel gives to connections."""

_ASK_SECONDS = 0.3
"""Between two questions to a Service that does not answer yet."""
_STOP_SECONDS = 10.0

_TERMINATE_SECONDS = 3.0
_KILL_SECONDS = 5.0


_FILE: Final = "edgecore.yaml"


class DemoError(BeehiveError):
    """A process of the demo failed; the text has the end of its log."""


class BusyboxMissingError(BeehiveError):
    """This machine has no static busybox."""


def missing_busybox() -> Shortfall | None:
    """Return what images of this machine's busybox lack: it must be static."""
    if BUSYBOX.exists() and _INTERPRETER not in BUSYBOX.read_bytes()[:_HEADERS]:
        return None
    return Shortfall("not installed: a static busybox", "apt-get install busybox-static")


def write_archive(path: Path, names: Iterable[str]) -> None:
    """Write an archive of one image with these names. Raises BusyboxMissingError, OSError."""
    if not BUSYBOX.exists():
        raise BusyboxMissingError("make the image of the demo", str(BUSYBOX), "apt-get install busybox-static")
    layer = _layer()
    config = json.dumps(
        {
            "architecture": goarch(),
            "os": "linux",
            "config": {"Cmd": ["sh"], "Env": [f"PATH={_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": sorted(set(names)), "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for name, content in (
            ("manifest.json", json.dumps(manifest).encode()),
            ("config.json", config),
            ("layer.tar", layer),
        ):
            _add(archive, name, content)


def _layer() -> bytes:
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as layer:
        for name in _DIRECTORIES:
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            layer.addfile(directory)
        _add(layer, "bin/busybox", BUSYBOX.read_bytes(), 0o755)
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                layer.addfile(link)
        for name, content in _FILES.items():
            _add(layer, name, content)
    return made.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


class Child:
    """A module of this project as a process in its own session, so that Ctrl-C reaches the demo only.

    Args:
        module: name for `python -m`.
        arguments: its command line.
        log: file for its output.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self.name = module.rpartition(".")[2]
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def failure(self) -> str:
        """Return how it has ended unexpectedly; empty while it runs."""
        status = self._process.poll()
        return "" if status is None else f"{self.name} has ended: {_described(status)}"

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def end(self, events: Events) -> None:
        """Wait until it has ended; kill it after ten seconds, or on a further signal to the demo."""
        deadline = Deadline(events, _STOP_SECONDS)
        while self._process.poll() is None and deadline.is_open():
            pass
        self._process.kill()
        self._process.wait()

    def tail(self, lines: int) -> list[str]:
        """Return the end of its output."""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=lines)]


def _described(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    names = {int(code): code.name for code in ExitCode}
    return f"exit status {status}" + (f" ({names[status]})" if status in names else "")


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants."""
    kernel.adopt_orphans()


def reap_orphans(except_for: frozenset[int] = frozenset()) -> None:
    """Reap adopted children that have ended, so that they do not remain as zombies.

    Args:
        except_for: children with another waiter; if one of them has ended, the rest is left for the next call.
    """
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in except_for:
                return
            os.waitpid(ended.si_pid, 0)


def end_descendants(events: Events) -> list[Pid]:
    """End every descendant: SIGTERM, some seconds to comply, then SIGKILL. Return the remaining ones.

    A further signal to the demo leads to SIGKILL immediately.
    """
    _signal_all(signal.SIGTERM)
    deadline = Deadline(events, _TERMINATE_SECONDS)
    while _living() and deadline.is_open():
        pass
    deadline = Deadline(events, _KILL_SECONDS)
    while _living() and deadline.is_open():
        _signal_all(signal.SIGKILL)
    return _living()


def _living() -> list[Pid]:
    reap_orphans()
    return [process.pid for process in descendants(Pid(os.getpid()), all_processes())]


def _signal_all(number: signal.Signals) -> None:
    for pid in _living():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class DemoCluster:
    """A context manager that makes the scratch directory, and at its end stops all processes and removes all files.

    Args:
        events: receives changes of pods and workloads.
        errors: stream for reports of files that could not be removed.
        images: images of the pods, for real containers, which have this machine's busybox in them; none for processes.
    """

    def __init__(self, events: Events, errors: TextIO, images: Sequence[str] = ()) -> None:
        self._events = events
        self._errors = errors
        self._images = images
        self._config: EdgeCoreConfig | None = None
        self._children: list[Child] = []
        self._page: PageServer | None = None
        self.directory = _scratch_directory()
        self.socket = self.directory / "cloud.sock"
        """cloudcore's control socket."""
        self.pod_logs = self.directory / "edge" / "logs" / "pods"
        """Directory of the containers' logs."""
        self.port = _free_port()
        """TCP port of the node's `/pods` and `/healthz`."""
        self._tunnel_port = _free_port(self.port)

    def __enter__(self) -> Self:
        adopt_orphans()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def start(self) -> None:
        """Start both processes, and return when the node is ready: each pod has a place from then on.

        Raises:
            DemoError: one of them did not start, or a signal came.
            UnreachableError: the cloud does not answer.
        """
        address = self._start_cloud()
        self._start_edge(address)
        self._wait("start edgecore", self._has_ready_node)

    def apply(self, objects: list[JsonObject]) -> None:
        """Apply objects to the cloud.

        Raises:
            DemoError: an object was refused.
            UnreachableError: the cloud does not answer.
        """
        client, query = RestClient(self.socket), (("fieldManager", "cloudcore"), ("force", "true"))
        for obj in items_of(objects):
            meta = obj["metadata"]
            path = object_path(kind_named(obj["kind"]), meta.get("namespace") or "default", meta["name"])
            try:
                client.request("PATCH", path, query, obj, APPLY_PATCH)
            except StatusError as error:
                raise DemoError("apply an example", str(error)) from error

    def watch(self) -> None:
        """Make every further change of a pod or workload an event.

        This takes threads outside of the actor model, because the demo has no bus and reads of the control socket
        block. The threads end with the connections.
        """
        for kind in KINDS:
            threading.Thread(target=self._follow, args=(kind,), name=f"watch-{kind}", daemon=True).start()

    def with_own_ports(self, examples: Iterable[Example]) -> list[Example]:
        """Return the examples with a free port of this machine in the place of theirs."""
        port = _free_port(self.port, self._tunnel_port)
        return [with_own_port(each, self.directory, port) for each in examples]

    def ask(self, names: Iterable[ObjectName]) -> None:
        """Ask Services of the node until they answer; each answer is an event, as is the reason while there is none.

        Pods that an ordinary user isolates are in a network of their own, and so are their Services: a pod asks.
        """
        if self._config is None:
            return
        path = socket_path(self._config)
        file = self.directory / _FILE if is_rootless(self._config) else None
        for name in names:
            threading.Thread(target=self._ask, args=(path, name, file), name=f"ask-{name.name}", daemon=True).start()

    def failure(self) -> str:
        """Return which process has failed; empty if none has. Also reaps ended containers."""
        reap_orphans(frozenset(child.pid for child in self._children))
        return next((failure for child in self._children if (failure := child.failure())), "")

    def page_address(self) -> str:
        """Return an address of the page of the fleet, which is served from the first call on.

        Raises:
            ListenError: no port can be listened on.
        """
        if self._page is None:
            links, about = ControlLinks(ControlClient(self.socket)), About(str(self.socket), VERSION, "cloudcore")
            api = fleet_api(RestClient(self.socket), links, self._events.clock, about)
            self._page = PageServer(api, self._events.clock, about.program)
        return self._page.address()

    def logs(self) -> list[str]:
        """Return the ends of both processes' logs."""
        lines: list[str] = []
        for child in self._children:
            lines += [f"--- the last lines of {child.name}:", *child.tail(_LOG_LINES)]
        return lines

    def _start_cloud(self) -> str:
        ready = self.directory / "cloud.address"
        arguments = ["run", "--listen", "127.0.0.1:0", "--socket", str(self.socket), "--ready-file", str(ready)]
        arguments += ["--tunnel-listen", f"127.0.0.1:{self._tunnel_port}"]
        self._children.append(Child("modules.processes.cloudcore", arguments, self.directory / "cloudcore.log"))
        self._wait("start cloudcore", ready.exists)
        return ready.read_text().strip()

    def _wait(self, attempt: str, is_done: Callable[[], bool]) -> None:
        deadline = Deadline(self._events, _START_SECONDS)
        while not is_done():
            failure = self.failure()
            if failure or not deadline.is_open():
                raise DemoError(attempt, failure or "it is not ready", "\n".join(self.logs()))

    def _has_ready_node(self) -> bool:
        nodes = RestClient(self.socket).get(object_path(_NODE))["items"]
        return any(is_ready(node) and node["status"]["nodeInfo"].get("kubeProxyVersion") for node in nodes)

    def _start_edge(self, address: str) -> None:
        file = self.directory / _FILE
        ports = self.port, self._tunnel_port
        config = self._config = _config(self.directory / "edge", address, *ports, oci=bool(self._images))
        file.write_text(render(config))
        if self._images:
            config.image_archives.mkdir(parents=True)
            write_archive(config.image_archives / "busybox.tar", self._images)
        self._children.append(
            Child("modules.processes.edgecore", ["run", "--config", str(file)], self.directory / "edgecore.log")
        )

    def _follow(self, kind: str) -> None:
        with suppress(UnreachableError):  # the connection ends with cloudcore, which `failure` reports
            for line in RestClient(self.socket).lines(object_path(kind_named(kind)), (("watch", "true"),)):
                change = decode_json(line)
                self._events.put(ExampleChanged(kind, change["object"], deleted=change["type"] == "DELETED"))

    def _ask(self, socket: Path, name: ObjectName, file: Path | None) -> None:
        is_answered = False
        while not (is_answered or self._events.asked_to_end):
            found = ask(socket, name, file)
            is_answered = bool(found["status"].get("answer"))
            self._events.put(ExampleChanged(SERVICE, found, deleted=False))
            time.sleep(_ASK_SECONDS)

    def _clear(self) -> None:
        """End the node first, so that it does not restart containers, then everything else."""
        if self._page is not None:
            self._page.stop()
        for child in reversed(self._children):
            child.terminate()
        for child in self._children:
            child.end(self._events)
        if self._images and self._config is not None:
            if is_rootless(self._config):
                self._uninstall()
            else:
                self._purge(self._config)
        left = end_descendants(self._events)
        mounts = KernelMounts()
        with suppress(VolumeError):  # volumes in memory, of pods that were not deleted
            mounts.unmount(*points_below(mounts, self.directory))
        with suppress(OSError):
            remove_tree(self.directory)
        if left:
            self._errors.write(f"demo: these processes do not even end by SIGKILL: {left}\n")
        if self.directory.exists():
            self._errors.write(f"demo: {self.directory} could not be removed\n")

    def _uninstall(self) -> None:
        """Let a process in the node's namespaces remove the node's files: they are sub-ids'."""
        command = [sys.executable, "-m", "modules.processes.edgecore", "uninstall", "--yes", "--config"]
        done = subprocess.run([*command, str(self.directory / _FILE)], capture_output=True, text=True, check=False)
        if done.returncode:
            self._errors.write(f"demo: {done.stderr}\n")

    def _purge(self, config: EdgeCoreConfig) -> None:
        """Remove containers, which outlive edgecore, with their mounts, namespaces and network."""
        clock = RealClock()
        try:
            purge_container_runtime(config, clock)
        except ContainerRuntimeError as error:
            self._errors.write(f"demo: {error}\n")
        finally:
            clock.close()
        remove_cgroups(config, pod_uids(config), lambda _: None)
        for hierarchy in machine_hierarchies():
            with suppress(OSError):  # it has no database
                (hierarchy.mount / self.directory.name).rmdir()


def _scratch_directory() -> Path:
    """Make a directory below the one for temporary files, or below /tmp if that path is too long for sockets."""
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > _LONGEST_DIRECTORY:
        parent = Path("/tmp")  # noqa: S108 - mkdtemp makes it safe
    return Path(tempfile.mkdtemp(prefix="edgecore-", dir=parent))


def _free_port(*others: int) -> int:
    """Return a port, none of the others, that is free at all addresses of this machine, and stays so until it is used:
    the kernel gives none of this range to others.
    """
    ports = [each for each in range(_FIRST_PORT, _LAST_PORT) if each not in others]
    random.shuffle(ports)
    for port in ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    raise DemoError("find a free port", f"none from {_FIRST_PORT} to {_LAST_PORT}")


def _config(root: Path, cloud: str, port: int, tunnel: int, *, oci: bool) -> EdgeCoreConfig:
    """Return the defaults of a node below `root`, with the cloud's address, a port of its own, and the stream tunnel.

    Services are carried by a proxy that changes nothing on the machine, whoever runs it. With `oci`, containers are
    isolated, so the name server, on a loopback address, is not for them. Without root isolated containers have a
    network of their own, where all is as on any node.
    """
    replace = msgspec.structs.replace
    config = EdgeCoreConfig.below(root)
    hub = config.modules.edge_hub
    # the demo's own cloudcore listens there on the loopback interface before the node starts, and both end together
    edged = replace(config.modules.edged, allow_unisolated_root=True)
    kubelet = replace(
        edged.tailored_kubelet_config,
        read_only_port=port,
        container_runtime_endpoint=OCI_ENDPOINT if oci else PROCESS_ENDPOINT,
        cgroup_root=f"/{root.parent.name}",
    )
    mesh = replace(config.modules.edge_mesh, enable=True)
    if not oci or is_machine_root():
        plane = DataPlaneKind.USERSPACE
        mesh = replace(mesh, data_plane=plane, service_cidrs=(), dns=not oci, dns_address=_NAME_SERVER)
    return replace(
        config,
        modules=replace(
            config.modules,
            edge_mesh=mesh,
            edge_hub=replace(hub, websocket=replace(hub.websocket, server=f"ws://{cloud}")),
            edge_stream=replace(config.modules.edge_stream, enable=True, server=f"ws://127.0.0.1:{tunnel}"),
            edged=replace(edged, tailored_kubelet_config=kubelet),
        ),
    )
