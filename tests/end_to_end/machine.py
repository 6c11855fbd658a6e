"""A machine under test: a cloud, a node with its runtime, and a directory with everything that they keep."""

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.clock import RealClock
from modules.apimachinery.kinds import JsonObject
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.kubelet import CrashLoopBackOff
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.mirror import Mirror
from tests.end_to_end.processes import (
    REPOSITORY,
    Process,
    comes_true,
    mounts_below,
    processes_of,
    run_program,
    wait_until,
)
from tests.end_to_end.runtimes import RuntimeUnderTest
from tests.support.control_client import Apply, ControlClient, Delete, Get
from tests.support.directories import SHORT, new_directory
from tests.support.leftovers import remove_cgroups, unmount_under
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.spread import spread

NODE: Final = "edge-1"
_CLOUDCORE: Final = "modules.processes.cloudcore"
_EDGECORE: Final = "modules.processes.edgecore"
_replace = msgspec.structs.replace


class Cloud:
    """`cloudcore run`; keeps its objects and its address over restarts."""

    def __init__(self, directory: Path) -> None:
        self.module = _CLOUDCORE
        """What is run; another is a cloudcore with other manners."""
        self.tree = REPOSITORY
        """With the code that the next start runs."""
        self.socket = directory / "cloud.sock"
        self.client = ControlClient(self.socket)
        self._directory = directory
        self._log = directory / "cloudcore.log"
        self.tls_options: list[str] | None = None
        """Set: with TLS, and these options."""
        self.options: list[str] = []
        """Further options of `run`."""
        self._address, self._certificates = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._process: Process | None = None
        self._mirrors: dict[str, Mirror] = {}

    @property
    def address(self) -> str:
        """Host and port of the websocket."""
        return self._address

    @property
    def certificates(self) -> str:
        """URL of the server of certificates, with TLS."""
        return f"https://{self._certificates}"

    @property
    def pods(self) -> Mirror:
        """The pods."""
        return self.mirror("Pod")

    def mirror(self, kind: str) -> Mirror:
        """What the running cloud knows of a kind."""
        if kind not in self._mirrors:
            self._mirrors[kind] = Mirror(self.socket, kind)
        return self._mirrors[kind]

    def forget(self) -> None:
        """What the mirrors have seen is no concern of the next test."""
        for mirror in self._mirrors.values():
            mirror.forget()

    def start(self) -> None:
        """Starts it (again) and returns when it serves."""
        ready = self._directory / "cloud.address"
        ready.unlink(missing_ok=True)
        arguments = ["run", "--listen", self._address, "--socket", str(self.socket), "--ready-file", str(ready)]
        if self.tls_options is not None:
            directory = str(self._directory / "cloud-tls")
            arguments += ["--tls", "--tls-dir", directory, "--https-listen", self._certificates, *self.tls_options]
        arguments += self.options
        process = Process(self.module, arguments, self._log, tree=self.tree)
        self._process = process
        wait_until(lambda: ready.exists() or not process.runs, "cloudcore is ready")
        assert process.runs, process.tail()
        self._address, *rest = ready.read_text().split()
        self._certificates = rest[0] if rest else self._certificates
        self._mirrors.clear()

    @property
    def runs(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.runs

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self._process is not None
        self._process.signal(signal.SIGTERM)
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def apply(self, *objects: JsonObject) -> None:
        """Makes objects as these manifests want them."""
        errors = [item.error for item in self.client.run(Apply(list(objects))) if item.error]
        assert not errors, errors

    def delete(self, kind: str, name: str, grace: int | None = None) -> None:
        """Deletes an object; returns immediately."""
        errors = [item.error for item in self.client.run(Delete(kind, name, grace=grace)) if item.error]
        assert not errors, errors

    def get(self, kind: str, name: str) -> JsonObject:
        """An object as it is now."""
        (item,) = self.client.run(Get(kind, name, None))
        assert item.object is not None, item.error
        return item.object

    def tail(self) -> str:
        """The end of its log."""
        return self._process.tail() if self._process else ""


class Edge:
    """`edgecore run --config FILE`."""

    def __init__(self, directory: Path, runtime: RuntimeUnderTest) -> None:
        self.module = _EDGECORE
        """What is run; another is an edgecore that is watched."""
        self.tree = REPOSITORY
        """With the code that the next start runs."""
        self.imports_itself = False
        """Set: each process is a new interpreter, for tests of what it imports."""
        self.root = directory / "edge"
        self.pod_logs = self.root / "logs" / "pods"
        self.port = free_port()
        self.cgroup_root = f"/{directory.name}"
        self.kubelet: dict[str, Any] = {}
        """Other settings of the kubelet's section."""
        self.edged: dict[str, Any] = runtime.prepare(self.root / "edged")
        """Other settings of edged's section."""
        self.api_port = 0
        """Of the metaserver; 0: it is switched off."""
        self.test_port = 0
        """Of the module testManager; 0: it is switched off."""
        self.tunnel_port = 0
        """Where the cloud's end of the stream tunnel listens; 0: edgestream is switched off."""
        self.mesh: dict[str, Any] = {}
        """Settings of edgemesh."""
        self.longest_back_off = 300.0
        self.options: list[str] = []
        """Further options of `run`."""
        self.file = directory / "edgecore.yaml"
        self._directory = directory
        self._runtime = runtime
        self._process: Process | None = None

    def start(self, cloud_address: str) -> None:
        """Starts it (again); returns immediately."""
        self.file.write_text(render(self._config(cloud_address)))
        self.run()

    def change_runtime(self, runtime: RuntimeUnderTest) -> None:
        """Use another runtime from the next start on; at the end the machine still clears its own."""
        self._runtime = runtime

    def run(self) -> None:
        """Starts it (again) with the file that is there."""
        arguments = ["run", "--config", str(self.file), *self.options]
        log = self._directory / "edgecore.log"
        preloads = () if self.imports_itself else None
        self._process = Process(self.module, arguments, log, tree=self.tree, preloads=preloads)

    def join(self, cloud: Cloud, token: str) -> subprocess.CompletedProcess[str]:
        """`edgecore join`, on a file that names another cloud; the tunnel leads to its port here, not to KubeEdge's."""
        self.file.write_text(render(self._config("127.0.0.1:1")))
        where = ["--cloud", cloud.address, "--http-server", cloud.certificates, "--config", str(self.file)]
        done = run_program("edgecore", "join", *where, "--token", "-", given=token)
        if self.tunnel_port:
            server = f"edgeStream:\n    server: 127.0.0.1:{self.tunnel_port}\n"
            self.file.write_text(self.file.read_text().replace("edgeStream:\n", server))
        return done

    @property
    def process(self) -> Process:
        """The process that was started last."""
        assert self._process is not None, "edgecore was not started"
        return self._process

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def tail(self) -> str:
        """The end of its log."""
        return self._process.tail() if self._process else ""

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of the node's own HTTP server; status 0 when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, urllib.error.URLError):
            return 0, ""

    def pods(self) -> dict[str, JsonObject]:
        """The node's own view of its pods, by name; empty while it does not answer."""
        status, body = self.get("/pods")
        return {each["metadata"]["name"]: each for each in json.loads(body)["items"]} if status == 200 else {}

    def volume(self, pod: JsonObject, plugin: str, name: str) -> Path:
        """The directory of a pod's volume on the machine, in a kubelet's layout."""
        uid = str(pod["metadata"]["uid"])
        return self.root / "edged" / "pods" / uid / "volumes" / f"kubernetes.io~{plugin}" / name

    def log(self, pod: JsonObject, container: str = "app", attempt: int = 0) -> Path:
        """The log file of a container, where CRI expects it."""
        meta = pod["metadata"]
        directory = f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        return self.pod_logs / directory / container / f"{attempt}.log"

    def lines(self, pod: JsonObject, container: str = "app", attempt: int = 0) -> list[str]:
        """What a container has printed, without CRI's time, stream and tag; a line that came in parts as one."""
        file = self.log(pod, container, attempt)
        written = file.read_text().rpartition("\n")[0] if file.exists() else ""  # a line may be half there
        whole, parts = [], dict.fromkeys(("stdout", "stderr"), "")
        for entry in written.splitlines():
            _, stream, tag, text = entry.split(" ", 3)
            parts[stream] += text
            if tag == "F":
                whole.append(parts[stream])
                parts[stream] = ""
        return whole + [text for text in parts.values() if text]

    def _config(self, cloud_address: str) -> EdgeCoreConfig:
        config = EdgeCoreConfig.below(self.root)
        hub, edged = config.modules.edge_hub, config.modules.edged
        kubelet = _replace(
            edged.tailored_kubelet_config,
            container_runtime_endpoint=self._runtime.endpoint,
            read_only_port=self.port,
            cgroup_root=self.cgroup_root,
            **self.kubelet,
            crash_loop_back_off=CrashLoopBackOff(max_container_restart_period=self.longest_back_off),
        )
        server = _replace(config.modules.meta_manager.meta_server, enable=bool(self.api_port))
        if self.api_port:
            server = _replace(server, server=f"127.0.0.1:{self.api_port}")
        modules = _replace(
            config.modules,
            meta_manager=_replace(config.modules.meta_manager, meta_server=server),
            edge_mesh=_replace(config.modules.edge_mesh, **self.mesh),
            edge_hub=_replace(hub, websocket=_replace(hub.websocket, server=f"ws://{cloud_address}")),
            edged=_replace(
                edged, hostname_override=NODE, allow_unisolated_root=True, tailored_kubelet_config=kubelet, **self.edged
            ),
        )
        if self.test_port:
            modules = _replace(modules, db_test=_replace(modules.db_test, enable=True, port=self.test_port))
        address = f"ws://127.0.0.1:{self.tunnel_port or 10004}"
        tunnel = _replace(modules.edge_stream, enable=bool(self.tunnel_port), server=address)
        modules = _replace(modules, edge_stream=tunnel)
        return _replace(config, modules=modules)


class Machine:
    """Both together. A context manager; at its end nothing of it may be left, and that is asserted.

    Args:
        runtime: of the node.
        parent: of its directory.
    """

    def __init__(self, runtime: RuntimeUnderTest, parent: Path = SHORT) -> None:
        self.directory = new_directory("e2e-", parent)
        spread(self.directory)
        self.runtime = runtime
        self.clock = RealClock()
        self.cloud = Cloud(self.directory)
        self.edge = Edge(self.directory, runtime)

    def start(self) -> None:
        """Starts both; returns when the node is registered and ready."""
        self.cloud.start()
        self.edge.start(self.cloud.address)
        self.cloud.mirror("Node").wait(NODE, _node_is_ready)

    def start_edge(self) -> None:
        """Starts edgecore again, with the same files."""
        self.edge.start(self.cloud.address)

    def report(self) -> str:
        """The ends of both logs, for a test that has failed."""
        return f"--- cloudcore\n{self.cloud.tail()}\n--- edgecore\n{self.edge.tail()}"

    def close(self) -> None:
        """Ends and removes everything."""
        self.edge.kill()
        self.cloud.kill()
        try:
            self.runtime.clear(self.edge.root / "edged")
            wait_until(lambda: not self.runtime.left_behind(), "the runtime has nothing of any pod")
            for left_on_purpose in ("pods", "plugins"):  # volumes of pods that nobody has deleted
                unmount_under(self.edge.root / "edged" / left_on_purpose)
        finally:
            has_ended = comes_true(lambda: not processes_of(self.directory), PATIENCE)  # what was killed is still dying
            left = processes_of(self.directory), mounts_below(self.directory)
            for pid in left[0]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            stuck = remove_cgroups(self.edge.cgroup_root)
            shutil.rmtree(self.directory)
        assert has_ended, f"processes left behind: {left[0]}"
        assert not left[1], f"mounts left behind: {left[1]}"
        assert not stuck, f"cgroups that are in use left behind: {stuck}"


def _node_is_ready(node: JsonObject) -> bool:
    conditions: list[dict[str, Any]] = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
