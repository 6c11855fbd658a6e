"""A machine of the test's own as far as its network goes: namespaces with a bridge and pods, and real nftables."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import pytest

from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.nft.kernel import KernelRules
from modules.edge.edgemesh.nft.program import Nft
from modules.edge.edgemesh.plane import NamespacedPlane, NftPlane
from modules.runtimes.oci.network.kernel import in_network_namespace
from tests.support.patience import PATIENCE

T = TypeVar("T")

needs_nft = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None or shutil.which("ip") is None,
    reason="needs root, nft and ip (apt-get install nftables iproute2)",
)

GATEWAY: Final = "10.86.0.1"


class Machine:
    """A machine with a bridge for pods and no default route."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.pods: list[Pod] = []

    @property
    def prefix(self) -> list[str]:
        """The words that run a command in this machine's network."""
        return ["ip", "netns", "exec", self._name]

    def sh(self, command: str) -> str:
        """Run a command in this machine's network."""
        return _run([*self.prefix, *command.split()])

    def do(self, function: Callable[[], T]) -> T:
        """Call a function in this machine's network."""
        return in_network_namespace(Path("/run/netns") / self._name, function)

    def plane(self, *cidrs: str, sees_bridges: bool = True) -> NamespacedPlane:
        """A data plane in this machine's network."""
        switch = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
        if switch.exists():
            self.do(lambda: switch.write_text(str(int(sees_bridges))))
        return NamespacedPlane(NftPlane(KernelRules(Nft()), HostAddresses(), cidrs or ("10.96.0.0/16",)), self.do)

    def set_up(self) -> None:
        """Make the bridge."""
        for command in (
            "ip link set lo up",
            "ip link add edgecore0 type bridge",
            f"ip address add {GATEWAY}/16 dev edgecore0",
            "ip link set edgecore0 up",
        ):
            self.sh(command)
        self.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))

    def add_pod(self) -> Pod:
        """Make a pod with an address of the bridge."""
        number = len(self.pods) + 1
        name, address, end = f"{self._name}p{number}", f"10.86.0.{number + 1}", f"v{number}"
        _run(["ip", "netns", "add", name])
        self.sh(f"ip link add {end} type veth peer name eth0 netns {name}")
        self.sh(f"ip link set {end} master edgecore0 up")
        self.sh(f"ip link set dev {end} type bridge_slave hairpin on")
        pod = Pod(name, address)
        self.pods.append(pod)
        for command in (
            "ip link set lo up",
            f"ip address add {address}/16 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {GATEWAY}",
        ):
            pod.sh(command)
        return pod

    def remove(self) -> None:
        """Remove all of it."""
        for pod in self.pods:
            pod.remove()
        _run(["ip", "netns", "delete", self._name])


class Pod:
    """A pod's network, with servers."""

    def __init__(self, name: str, address: str) -> None:
        self._name = name
        self.address = address
        self.servers: list[socket.socket] = []

    def sh(self, command: str) -> str:
        """Run a command in the pod's network."""
        return _run(["ip", "netns", "exec", self._name, *command.split()])

    def do(self, function: Callable[[], T]) -> T:
        """Call a function in the pod's network."""
        return in_network_namespace(Path("/run/netns") / self._name, function)

    def remove(self) -> None:
        """Remove it with its servers."""
        for server in self.servers:
            server.close()
        _run(["ip", "netns", "delete", self._name])

    def listen(self, port: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A server's socket in this pod; closed with the machine."""

        def bound() -> socket.socket:
            server = socket.socket(socket.AF_INET, kind)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("", port))
            if kind == socket.SOCK_STREAM:
                server.listen(256)
            server.settimeout(PATIENCE)
            return server

        server = self.do(bound)
        self.servers.append(server)
        return server


def connect(address: str, port: int, seconds: float = PATIENCE) -> socket.socket:
    """A TCP connection from the present network."""
    return socket.create_connection((address, port), timeout=seconds)


@contextmanager
def own_machine() -> Iterator[Machine]:
    """A machine, and its end."""
    name = f"em{uuid.uuid4().hex[:6]}"
    _run(["ip", "netns", "add", name])
    machine = Machine(name)
    try:
        machine.set_up()
        yield machine
    finally:
        machine.remove()


def _run(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, (command, ended.stderr)
    return ended.stdout.decode()
