"""A node whose OCI runtime is killed: its client, and what the machine has of it."""

import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from beehive.node_namespaces import DIRECTORY
from modules.runtimes.oci.leftovers import mount_points
from modules.runtimes.oci.mapped_roots import MappedRoots
from modules.runtimes.oci.rootless.node_network import NodeNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.chaos.oci_server import (
    CONMON,
    COUNTED,
    DELAY,
    DIGITS,
    HELD,
    HELPERS,
    LIMIT,
    REACHED,
    ROOTLESS,
    SLIRP,
    VICTIM,
    countdown,
    end,
    is_parent,
    number_of,
    users_of,
)
from tests.modules.runtimes.oci.node import control_groups
from tests.modules.runtimes.oci.rootless.node import enter_network
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, Node, alive
from tests.support.images import busybox_image, docker_archive

OWN: Final = "example.org/own:1"
"""An image that is removed, and imported again when it is wanted."""
_HELD_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.005
_REPOSITORY: Final = Path(__file__).parents[2]
_BUNDLES: Final = "bundles"
_WORKER: Final = "/modules/runtimes/oci/images/worker/__main__.py"
_FIRST_PORT, _NODES, _PORTS = 21_000, 50, 200
"""Ports of the machine: so many for each of so many nodes."""
_RULE: Final = re.compile(r'id: \\?"([0-9a-f]+)\\?".* --dports (\d+)')


def with_own_image(directory: Path) -> None:
    """Put the archive of an image into a node's directory, beside busybox's."""
    archive = docker_archive(busybox_image(OWN, Labels={"name": OWN}), directory)
    archive.replace(directory / "archives" / "own.tar")


class Death(NamedTuple):
    """When the runtime is to die: points of its work, and microseconds after that; or the conmon of a container."""

    points: int
    delay: int = 0
    victim: str = ""


class Shape(NamedTuple):
    """What a sandbox has of its own."""

    own_network: bool = False
    shares_processes: bool = False
    own_users: bool = False
    host_port: int = 0
    """0 without one."""


class Traces(NamedTuple):
    """What the machine has of a node: ids of containers and sandboxes, each in order."""

    conmons: tuple[str, ...]
    processes: tuple[str, ...]
    """The container of each process in a control group."""
    groups: tuple[str, ...]
    roots: tuple[str, ...]
    """Containers whose root file system is mounted."""
    second_roots: tuple[str, ...]
    """Containers with users of their own whose root file system is mounted a second time."""
    volumes: tuple[str, ...]
    """Containers with a mounted image volume."""
    states: tuple[str, ...]
    """Containers that crun knows."""
    namespaces: tuple[str, ...]
    leases: tuple[str, ...]
    ports: tuple[str, ...]
    """Sandboxes with a rule for a port of the machine."""
    directories: tuple[str, ...]
    """Of sandboxes and containers."""
    other: tuple[str, ...]
    """What nothing accounts for: half-made directories, orphans."""


class KilledOciNode(Node):
    """A node whose runtime dies. Use as a context manager; its end asserts that nothing is left."""

    def __init__(self, directory: Path, kind: str = CONMON) -> None:
        super().__init__(directory)
        self._kind = kind
        self._countdown = countdown(directory)
        self._held = directory / HELD
        self._release = threading.Timer(0, lambda: None)
        self._released_at = self._armed_at = 0
        self._template: subprocess.Popen[str] | None = None
        self.server = 0
        """Process id of the runtime, or 0."""
        self.shape = Shape()
        """For pods made from now on, and for new containers."""
        self.first_port = _FIRST_PORT + number_of(directory) % _NODES * _PORTS
        self._ports = range(self.first_port, self.first_port + _PORTS)
        self._second = MappedRoots(self.state).directory
        self.maps_users = kind == ROOTLESS
        """Whether all pods have users of their own without asking, as an ordinary user's."""
        if self.maps_users:
            self._second = DIRECTORY / "roots" / self._second.name

    def free_port(self, number: int) -> int:
        """One of the ports of the machine that this node's pods may have, by a number."""
        return self._ports[number % _PORTS]

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        """Control groups are below one of the node's, which an ordinary user has not."""
        self._choose_namespaces(config.linux.security_context.namespace_options)
        if not self.maps_users:
            config.linux.cgroup_parent = f"/{self.directory.name}"
        if self.shape.host_port:
            config.port_mappings.add(container_port=80, host_port=self.shape.host_port)

    def complete(self, config: cri.ContainerConfig) -> None:
        """Containers are in the namespaces of their pod."""
        options = config.linux.security_context.namespace_options
        self._choose_namespaces(options)
        options.pid = cri.POD if self.shape.shares_processes else cri.CONTAINER

    def _choose_namespaces(self, options: cri.NamespaceOption) -> None:
        options.network, options.pid = cri.POD if self.shape.own_network else cri.NODE, cri.CONTAINER
        if self.shape.own_users and not self.maps_users:
            user = options.userns_options
            user.mode = cri.POD
            for each in (user.uids, user.gids):
                each.add(container_id=0, host_id=100_000, length=65_536)

    def serve(self, death: Death | None = None) -> bool:
        """Start the runtime, which dies at a point of its start or not; return whether it serves."""
        assert self._template is not None and self._template.stdin is not None
        self.arm(death)
        if self._held.exists():
            self._release.cancel()
            threading.Thread(target=self._release_later).start()
        self._template.stdin.write("\n")
        self._template.stdin.flush()
        kind, _, number = self._said().partition(" ")
        if kind == "ended":
            assert death is not None and number.strip() in ("-9", "-14"), f"the runtime ended with {number}"
            return False
        self.disarm()
        self.server = int(number)
        self.connect()
        return True

    def arm(self, death: Death | None) -> None:
        """Let the runtime die at a point from now on."""
        shared = self._countdown
        shared[LIMIT] = shared[REACHED] = 0
        self._armed_at = shared[COUNTED]
        shared[DELAY] = death.delay if death else 0
        shared[VICTIM] = _number_of(death.victim) if death else 0
        shared[LIMIT] = self._armed_at + death.points if death else 0

    def hold(self, points: int) -> None:
        """Hold up crun and the CNI plug-in that begin from now on, until the runtime, started again, has passed points;
        for half a second if it does not die.
        """
        self._held.touch()
        self._released_at = points
        self._release = threading.Timer(_HELD_SECONDS, self.release)
        self._release.start()

    def release(self) -> None:
        """Let them go on."""
        self._release.cancel()
        self._held.unlink(missing_ok=True)

    def _release_later(self) -> None:
        for _ in range(int(DEADLINE_SECONDS / _LOOK_SECONDS)):
            if self.points >= self._released_at:
                break
            threading.Event().wait(_LOOK_SECONDS)
        self.release()

    def disarm(self) -> bool:
        """Let it live; return whether the point was reached."""
        self._countdown[LIMIT] = 0
        return bool(self._countdown[REACHED])

    @property
    def points(self) -> int:
        """How many points of its work have passed since `arm`."""
        return self._countdown[COUNTED] - self._armed_at

    @property
    def has_killed(self) -> bool:
        """Whether the runtime has killed a conmon, or a helper, there."""
        return self._countdown[VICTIM] < 0

    def kill_all(self) -> None:
        """Kill the runtime, and then whatever else keeps its namespaces, also crun that it has just started."""
        users = users_of(self.server)
        assert users, "the runtime has died by itself"
        self.kill()
        while left := [each for each in _processes() if users_of(each.number) == users and not _is_slirp(each)]:
            for each in left:
                with suppress(OSError):
                    end(each.number)

    def wait_for_end(self) -> None:
        """Note that the runtime is dead."""
        assert self._said().startswith("ended")
        self.server = 0
        self.disconnect()

    def kill(self) -> None:
        """Kill it now, if it lives."""
        if self.server:
            os.kill(self.server, 9)
            self.wait_for_end()

    def __enter__(self) -> Self:
        self._template = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.oci_server", str(self.directory), self._kind],
            cwd=_REPOSITORY,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PATH": f"{os.environ['PATH']}:{self.directory}",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.serve()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._template is not None
        self.kill()
        self.arm(None)
        self._template.communicate(timeout=DEADLINE_SECONDS)
        assert self._template.returncode == 0, "what the runtime has made cannot be removed"

    def _said(self) -> str:
        assert self._template is not None and self._template.stdout is not None
        return self._template.stdout.readline()

    def traces(self) -> Traces:
        """Look at the machine."""
        processes = _processes()
        below = [path for each in ("containers", "sandboxes") for path in (self.state / each).iterdir()]
        points = [Path(each) for each in mount_points(Path(f"/proc/{self.server}/mountinfo").read_bytes())]
        containers, name = self.state / "containers", self.directory.name
        pods = {path.parent.name for path in self._there(self.state / "namespaces").glob("*/init")}
        having = [each for process in processes for each in self._containers_of(process) - pods]
        leases = self._there(DIRECTORY / "cni" if self.maps_users else self.directory / "leases")
        return Traces(
            conmons=_sorted(each.arguments[each.arguments.index("-c") + 1] for each in processes if self._runs(each)),
            processes=_sorted(having),
            groups=_sorted(having if self.maps_users else {each.name for each in control_groups(name)} - {name} - pods),
            roots=_sorted(path.parent.name for path in points if path.parent.parent == containers),
            second_roots=_sorted(
                {each.name for each in _listed(self._there(self._second))} | _owners(points, self._second)
            ),
            volumes=_sorted(_owners([each.parent.parent for each in points], containers)),
            states=_sorted(path.name for path in self._in_runtime() if path.parent.name != _BUNDLES),
            namespaces=_sorted(path.name for path in self._there(self.state / "namespaces").iterdir()),
            leases=_sorted(path.read_text().split()[0] for path in leases.glob("edgecore/*.*.*.*")),
            ports=_sorted(pod for pod, port in self._host_ports() if int(port) in self._ports),
            directories=_sorted(path.name for path in below if not path.name.startswith(".")),
            other=_sorted(
                map(
                    str,
                    (
                        *self._unaccounted(below),
                        *self._lost_inits(processes),
                        *self._workers(processes),
                        *(self._beside(processes) if self.maps_users else ()),
                    ),
                )
            ),
        )

    def has_conmon(self, container: str) -> bool:
        """Whether the conmon of a container lives."""
        return any(self._runs(each) and container in each.arguments for each in _processes())

    def _runs(self, process: "_Process") -> bool:
        """Whether a process is a conmon of this node."""
        arguments = [os.fsencode(each) for each in process.arguments]
        return is_parent(arguments) and any(str(self.state) in each for each in process.arguments)

    def _unaccounted(self, below: list[Path]) -> list[Path]:
        images = self.state / "images"
        hidden = [path for path in below if path.name.startswith(".")]
        names = {path.name for path in below}
        lost = [path for path in self._in_runtime() if path.parent.name == _BUNDLES and path.name not in names]
        return [*hidden, *lost, *(self.state / "damaged").glob("*"), *images.glob("layers/.*"), *images.glob("trash/*")]

    def _in_runtime(self) -> list[Path]:
        """Return crun's states of containers, and their bundles."""
        return list(self._there(self.state / "runtime").glob("*/*"))

    def _there(self, path: Path) -> Path:
        """Return a path as the runtime has it."""
        return Path(f"/proc/{self.server}/root{path}")

    def _containers_of(self, process: "_Process") -> set[str]:
        """The container of a process: by its control group or, as an ordinary user has none, its root file system."""
        if not self.maps_users:
            return _groups_below(self.directory.name, process.groups)
        with suppress(OSError):
            mounts = Path(f"/proc/{process.number}/mountinfo").read_text()
            root = next((line for line in mounts.splitlines() if line.split()[4] == "/"), "")
            found = re.search(rf"upperdir={self.state}/containers/([0-9a-f]+)/", root)
            return {found[1]} if found else set()
        return set()

    def _host_ports(self) -> list[tuple[str, str]]:
        """The sandboxes that portmap leads ports to, which are as many as slirp4netns has."""
        if not self.maps_users:
            return _RULE.findall(_host_port_rules())
        found = _RULE.findall(_host_port_rules(enter_network(self.server)))
        forwards = NodeNetwork(self._there(DIRECTORY)).forwards()
        inner = sorted(str(each.inner) for each in forwards)
        same = inner == sorted(port for _, port in found)
        return found if same else [*found, (f"slirp4netns has {inner}", str(self.first_port))]

    def _beside(self, processes: "list[_Process]") -> list[str]:
        """What is missing or too many of the processes of the namespaces that belong to no container."""
        users = users_of(self.server)
        names: Counter[str] = Counter()
        for each in processes:
            with suppress(OSError):
                if users_of(each.number) == users and each.number != self.server and not self._runs(each):
                    names[Path(f"/proc/{each.number}/comm").read_text().strip()] += 1
        wanted = Counter(HELPERS)
        return [f"{sign}{name}" for sign, more in (("+", names - wanted), ("-", wanted - names)) for name in more]

    def _lost_inits(self, processes: "list[_Process]") -> list[str]:
        """The first processes of pods that share their processes which no pod has."""
        pinned = {int(path.read_text()) for path in self._there(self.state / "namespaces").glob("*/init")}
        found = []
        for each in processes:
            if each.arguments[0] == "pause" and each.number not in pinned:
                with suppress(OSError):
                    if f" {self.state}/" in Path(f"/proc/{each.number}/mountinfo").read_text():
                        found.append(f"first process {each.number}")
        return found

    def _workers(self, processes: "list[_Process]") -> list[str]:
        """The processes that pull, unpack or remove images of this node."""
        return [
            f"worker {each.number}"
            for each in processes
            if any(argument.endswith(_WORKER) for argument in each.arguments) and self._uses(each.number)
        ]

    def _uses(self, number: int) -> bool:
        """Whether a process has a file or directory of the node open."""
        links = [Path(f"/proc/{number}/cwd"), Path(f"/proc/{number}/root")]
        with suppress(OSError):
            links += Path(f"/proc/{number}/fd").iterdir()
        for link in links:
            with suppress(OSError):
                if self.directory in link.readlink().parents:
                    return True
        return False


def _is_slirp(process: "_Process") -> bool:
    """Whether it is slirp4netns, whose mounts are its own: nobody enters the node's by it."""
    return Path(process.arguments[0]).name == SLIRP


class _Process(NamedTuple):
    number: int
    arguments: list[str]
    groups: str


def _processes() -> list[_Process]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and alive(int(entry.name)):
            with suppress(OSError):
                arguments = (entry / "cmdline").read_text(errors="replace").split("\0")
                found.append(_Process(int(entry.name), arguments, (entry / "cgroup").read_text()))
    return found


def _groups_below(name: str, groups: str) -> set[str]:
    """The container in whose control group a process is, if any."""
    return {line.rpartition("/")[2] for line in groups.splitlines() if f"/{name}/" in line}


def _owners(points: list[Path], top: Path) -> set[str]:
    """The names of the directories of `top` that contain mounts."""
    return {each.parent.name for each in points if each.parent.parent == top}


def _listed(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.exists() else []


def _number_of(victim: str) -> int:
    """What stands for a victim among the shared numbers: a helper's place, or the first digits of a container."""
    return HELPERS.index(victim) + 1 if victim in HELPERS else int(victim[:DIGITS] or "0", 16)


def _host_port_rules(prefix: Sequence[str] = ()) -> str:
    """The rules of portmap for ports of the machine; none where it never ran."""
    command = [*prefix, "/usr/sbin/iptables", "-w", "-t", "nat", "-S", "CNI-HOSTPORT-DNAT"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
