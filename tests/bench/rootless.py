"""The OCI runtime with and without root, by the same calls: whoever runs this has the one or the other."""

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil

from beehive.clock import RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork
from modules.runtimes.oci.programs import find_programs
from protos.cri.v1 import api_pb2 as cri
from tests.bench.oci import proportional
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import breathe
from tests.modules.runtimes.oci.node import node_directory
from tests.modules.runtimes.oci.node import reason_missing as root_missing
from tests.modules.runtimes.oci.rootless.node import RootlessNode, rootless_node
from tests.modules.runtimes.oci.rootless.node import reason_missing as user_missing
from tests.modules.runtimes.process.node import LocalNode, Node
from tests.support.containerd import reserve_network

_MANY: Final = 20
_AT_ONCE: Final = 4
"""As many pods as edged starts at once."""
_MEGABYTES: Final = 256
_SLEEP: Final = "exec sleep 3600"
_BESIDE: Final = ("conmon", "slirp4netns", "sleep")


class _RootNode(LocalNode):
    """A node of root, with a network of its own."""

    def __init__(self, directory: Path, default: DefaultNetwork) -> None:
        self._default = default
        super().__init__(directory)

    def _settings(self) -> OciSettings:
        network = PodNetwork(self.directory / "net.d", BINARY_DIRECTORIES, self.clock, default=self._default)
        return OciSettings(find_programs(), network, self.directory / "certs.d", self.directory / "archives")

    def new_runtime(self) -> CriServer:
        """Return a runtime on the node's directory, not started."""
        return CriServer(self.state, self.socket, self.clock, self._settings())

    def purge(self) -> None:
        """Remove everything that the runtime has made."""
        purge(self.state, self.clock, self._settings())

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        """Containers have processes of their own, and their control groups are below one of the node's."""
        config.linux.security_context.namespace_options.pid = cri.CONTAINER
        config.linux.cgroup_parent = f"/{self.directory.name}"

    def complete(self, config: cri.ContainerConfig) -> None:
        """Containers have processes of their own."""
        config.linux.security_context.namespace_options.pid = cri.CONTAINER


def missing() -> str | None:
    """Why this machine, or this user, cannot measure it."""
    return (user_missing() if os.geteuid() else root_missing()) or None


def measure(rounds: int) -> list[Row]:
    """All rows of this user."""
    with rootless_node() if os.geteuid() else _root_node() as node:
        node.run("true")  # the image is unpacked, and the bridge is there
        one, many = [], []
        for _ in range(2 * rounds):
            one.append(_start(node, 1))
            _remove_all(node)
        for _ in range(rounds):
            many.append(_start(node, _MANY))
            beside = _memory_beside(node)
            _remove_all(node)
        sent = list(_throughput(node, rounds))
    who = "without root" if os.geteuid() else "root"
    return [
        Row.of(f"{who}: 1 pod with a network, sandbox to started", one, Unit.SECONDS, goals=(Goal(0.1),)),
        Row.of(f"{who}: {_MANY} pods, {_AT_ONCE} at a time", many, Unit.SECONDS, goals=(Goal(1.0),)),
        Row(f"{who}: memory beside edgecore and {_MANY} containers (PSS)", beside, Unit.MEGABYTES, goals=(Goal(16),)),
        *([Row.of(f"{who}: MB that a pod sends to the machine", sent, Unit.PER_SECOND)] if sent else []),
    ]


@contextmanager
def _root_node() -> Iterator[Node]:
    with node_directory() as directory, ExitStack() as stack:
        clock, reserved = RealClock(), reserve_network(directory.name)
        stack.callback(clock.close)
        stack.callback(reserved.reservation.close)
        default = DefaultNetwork(clock, [reserved.subnet], reserved.bridge, directory / "leases")
        stack.callback(default.remove)
        yield stack.enter_context(_RootNode(directory, default))


def _start(node: Node, number: int) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        for each in [workers.submit(node.shell, _SLEEP) for _ in range(number)]:
            each.result()
    return time.perf_counter() - begin


def _remove_all(node: Node) -> None:
    for item in node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items:
        node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=item.id))
        node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=item.id))
    breathe()


def _memory_beside(node: Node) -> float:
    """Parents of containers and, without root, slirp4netns and the holder of the namespaces, in megabytes."""
    members = node.members().values() if isinstance(node, RootlessNode) else ()
    users = {_users(pid) for pid in members}
    beside = [each for each in psutil.process_iter(["name", "cmdline"]) if each.info["name"] in _BESIDE]
    mark = str(node.directory)
    its = [each for each in beside if _users(each.pid) in users or mark in " ".join(each.info["cmdline"] or ())]
    return sum(map(proportional, its))


def _users(pid: int) -> str:
    """The user namespace of a process; of one that has ended, or is somebody else's, its own number."""
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError:
        return str(pid)


def _throughput(node: Node, rounds: int) -> Iterator[float]:
    """Megabytes a second from a pod to an address of the machine; nothing if it has none but loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return
        address = probe.getsockname()[0]
    for _ in range(rounds):
        with socket.create_server((address, 0)) as server:
            port = server.getsockname()[1]
            container = node.shell(f"dd if=/dev/zero bs=1M count={_MEGABYTES} 2> /dev/null | nc {address} {port}")
            connection, _ = server.accept()
            with connection:
                begin = time.perf_counter()
                while connection.recv(1 << 20):
                    pass
                yield _MEGABYTES / (time.perf_counter() - begin)
            node.ended(container)
