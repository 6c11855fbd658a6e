"""A machine of the test's own as far as its network goes: CNI plug-ins and iptables run in a namespace, with another
network beside it that knows no route to its pods.
"""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from beehive.clock import Clock
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.network.pod_network import PodNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import PLUGINS

T = TypeVar("T")

BRIDGE: Final = "edgecore0"
"""Only this machine has it."""
BOTH: Final = ("10.86.0.0/16", "fd00:86::/64")
BESIDE: Final = ("192.0.2.2", "2001:db8:2::2")
"""The addresses of a machine in the other network."""
HERE: Final = ("192.0.2.1", "2001:db8:2::1")
"""The addresses of this machine there."""
_PREFIXES: Final = (24, 64)


class OwnMachine:
    """The machine. Its methods run commands and functions in its network."""

    def __init__(self, directory: Path, namespaces: PodNamespaces, clock: Clock) -> None:
        self.directory, self._namespaces, self._clock = directory, namespaces, clock
        self.netns, self.beside = self._new("machine"), self._new("beside")
        self._join_networks()
        self.default = self.network_of(BOTH)
        self.network = self.pods_on(self.default)

    def network_of(self, cidrs: Sequence[str], routed: Sequence[str] = ()) -> DefaultNetwork:
        """Return edgecore's own network with these addresses, in these ranges that are routed between nodes."""
        return DefaultNetwork(self._clock, cidrs, BRIDGE, self.directory / "leases", routed=routed)

    def pods_on(self, default: DefaultNetwork | None) -> PodNetwork:
        """Return the network of pods as another start of edgecore makes it."""
        return PodNetwork(self.directory / "net.d", [PLUGINS], self._clock, default=default)

    def do(self, function: Callable[[], T]) -> T:
        """Call a function in this machine's network."""
        return in_network_namespace(self.netns, function)

    def sh(self, command: str, text: str = "") -> str:
        """Run a command in this machine's network, with an input; return its output."""
        return _run(self.netns, command, text)

    def sh_beside(self, command: str) -> str:
        """Run a command in the network beside it; return its output."""
        return _run(self.beside, command)

    def up(self, sandbox_id: str, *ports: cri.PortMapping, network: PodNetwork | None = None) -> PodAddresses:
        """Run a sandbox."""
        netns = self._new(sandbox_id)
        self.home(sandbox_id).mkdir(exist_ok=True)
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="a", namespace="b"), port_mappings=ports)
        return self.do(lambda: (network or self.network).attach(sandbox_id, self.home(sandbox_id), netns, config))

    def down(self, sandbox_id: str, network: PodNetwork | None = None) -> None:
        """Stop a sandbox."""
        netns = self.pod(sandbox_id)
        self.do(lambda: (network or self.network).detach(sandbox_id, self.home(sandbox_id), netns))
        self._namespaces.unpin(sandbox_id)

    def home(self, sandbox_id: str) -> Path:
        """Return the directory of a sandbox."""
        return self.directory / sandbox_id

    def pod(self, sandbox_id: str) -> Path:
        """Return the network of a sandbox."""
        paths = self._namespaces.pinned(sandbox_id)
        assert paths is not None
        assert paths.network is not None
        return paths.network

    def count_forwarded(self, address: str) -> Callable[[], int]:
        """Return what tells how many packets to an address have come to FORWARD since, whatever becomes of them.

        The counter of the chain's policy would not do: with br_netfilter, multicast that the bridge floods is in it.
        """
        program = "ip6tables" if ":" in address else "iptables"
        self.sh(f"{program} -w -A FORWARD -d {address}")

        def count() -> int:
            lines = self.sh(f"{program} -w -L FORWARD -v -x -n").splitlines()
            return next(int(each.split()[0]) for each in lines if address in each.split())

        return count

    def _new(self, name: str) -> Path:
        paths = self._namespaces.pin(name, network=True, ipc=False, uts=False, hostname="", sysctls=_NONE)
        assert paths.network is not None
        return paths.network

    def _join_networks(self) -> None:
        _run(self.netns, f"ip link add outside type veth peer name inside netns {self.beside}")
        for netns, link, addresses in ((self.netns, "outside", HERE), (self.beside, "inside", BESIDE)):
            for address, prefix in zip(addresses, _PREFIXES, strict=True):
                _run(netns, f"ip address add {address}/{prefix} dev {link} {'nodad' if ':' in address else ''}")
            _run(netns, f"ip link set {link} up")


_NONE: Final[Mapping[str, str]] = {}


@contextmanager
def own_machine(directory: Path, namespaces: PodNamespaces, clock: Clock) -> Iterator[OwnMachine]:
    """A machine whose pods are detached afterwards; its bridge and rules end with its namespace."""
    machine = OwnMachine(directory, namespaces, clock)
    try:
        yield machine
    finally:
        machine.network.close()


def _run(netns: Path, command: str, text: str = "") -> str:
    line = ["nsenter", f"--net={netns}", *command.split()]
    done = subprocess.run(line, check=False, capture_output=True, text=True, input=text)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
