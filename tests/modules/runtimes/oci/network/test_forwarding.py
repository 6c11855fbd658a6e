"""edgecore's own network on a machine that forwards nothing by itself, as Docker leaves one."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.network.bridge import make_bridge
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from modules.runtimes.oci.network.namespaces import PodNamespaces
from tests.modules.runtimes.oci.network.machine import needs_plugins
from tests.modules.runtimes.oci.network.own_machine import BESIDE, BRIDGE, HERE, OwnMachine, own_machine
from tests.modules.runtimes.process.node import eventually
from tests.support.dockerd import PrivateDockerd, reason_missing

pytestmark = needs_plugins

DOCKERS = """
*filter
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
COMMIT
"""
"""The chains of Docker Engine 20.10."""


@pytest.fixture
def machine(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> Iterator[OwnMachine]:
    """A machine that drops packets to be forwarded."""
    with own_machine(directory, namespaces, clock) as made:
        for program in ("iptables", "ip6tables"):
            made.sh(f"{program} -w -P FORWARD DROP")
        yield made


def connecting(netns: Path, address: str, port: int) -> socket.socket:
    """A connection from a namespace that may not be made yet."""

    def connect() -> socket.socket:
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        made.settimeout(0)
        assert made.connect_ex((address, port))
        made.settimeout(60)
        return made

    return in_network_namespace(netns, connect)


def listening(netns: Path, address: str) -> socket.socket:
    """A server on an address in a namespace."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = in_network_namespace(netns, lambda: socket.create_server((address, 0), family=family))
    server.settimeout(60)
    return server


@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
def test_a_pod_reaches_another_network_once_the_rules_are_there(machine: OwnMachine, family: int) -> None:
    """One attempt to connect: its packets are dropped before, and the repeated one passes afterwards with the address
    of the machine, because the other network has no route to the pod.
    """
    (machine.directory / "net.d").mkdir()
    content = {"cniVersion": "1.0.0", "name": "edgecore", "plugins": machine.default.configuration.plugins}
    (machine.directory / "net.d" / "1.conflist").write_text(json.dumps(content))
    machine.do(lambda: make_bridge(BRIDGE))  # else its address is looked for on the network while the pod asks for it
    machine.up("a1")  # by a file, so that the plug-ins have made the rest
    address = BESIDE[family]
    count = machine.count_forwarded(address)
    with (
        listening(machine.beside, address) as server,
        connecting(machine.pod("a1"), address, server.getsockname()[1]) as client,
    ):
        eventually(count)
        machine.do(machine.default.prepare)
        with server.accept()[0] as accepted:
            assert accepted.getpeername()[0] == HERE[family]
            accepted.sendall(b"x")
            assert client.recv(1) == b"x"


def test_a_machine_of_another_network_reaches_a_pod(machine: OwnMachine) -> None:
    """As a router would send its packets; without the rules they are dropped."""
    addresses = machine.up("b1")
    machine.sh_beside(f"ip route add 10.86.0.0/16 via {HERE[0]}")
    machine.sh("iptables -w -F FORWARD")
    count = machine.count_forwarded(addresses.ip)
    with (
        listening(machine.pod("b1"), addresses.ip) as server,
        connecting(machine.beside, addresses.ip, server.getsockname()[1]),
    ):
        eventually(count)
        machine.do(machine.network_of(("10.86.0.0/16",)).prepare)
        with server.accept()[0] as accepted:
            assert accepted.getpeername()[0] == BESIDE[0]


def test_beside_docker(machine: OwnMachine) -> None:
    """The rules are in the chain that Docker leaves to others, behind the user's and once only; nothing of
    Docker's or the user's is changed, and `remove` leaves the rest as it was.
    """
    machine.sh("iptables-restore --noflush", DOCKERS)
    machine.sh("iptables -w -I DOCKER-USER -s 10.86.0.9/32 -j DROP")
    before = machine.sh("iptables -w -S")
    for _ in range(2):
        machine.do(machine.network_of(("10.86.0.0/16",)).prepare)
    rules = machine.sh("iptables -w -S DOCKER-USER").splitlines()[1:]
    assert [each.partition(" -m ")[0] for each in rules] == [
        "-A DOCKER-USER -s 10.86.0.9/32 -j DROP",
        f"-A DOCKER-USER -o {BRIDGE}",
        f"-A DOCKER-USER -i {BRIDGE}",
        "-A DOCKER-USER -j RETURN",
    ]
    assert "edgecore" not in machine.sh("iptables -w -S FORWARD")
    machine.up("c1")
    with (
        listening(machine.beside, BESIDE[0]) as server,
        connecting(machine.pod("c1"), BESIDE[0], server.getsockname()[1]),
        server.accept()[0] as accepted,
    ):
        assert accepted.getpeername()[0] == HERE[0]
    machine.down("c1")
    machine.do(machine.default.remove)
    machine.do(LoopbackFirewall(RealClock()).remove)
    assert machine.sh("iptables -w -S") == before
    assert "edgecore" not in machine.sh("ip6tables-save")


@pytest.mark.skipif(bool(reason_missing()), reason=reason_missing() or "")
def test_beside_a_real_docker(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> None:
    """It sets the policy and makes its chains itself; pods reach another network."""
    with ExitStack() as stack:
        machine = stack.enter_context(own_machine(directory, namespaces, clock))
        machine.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("0"))  # else Docker leaves the policy
        stack.enter_context(PrivateDockerd(netns=machine.netns))
        assert "-P FORWARD DROP" in machine.sh("iptables -w -S FORWARD")
        machine.up("d1")
        assert machine.sh("iptables -w -S DOCKER-USER").count(BRIDGE) == 2 * 2  # each with its comment
        with (
            listening(machine.beside, BESIDE[0]) as server,
            connecting(machine.pod("d1"), BESIDE[0], server.getsockname()[1]),
            server.accept()[0] as accepted,
        ):
            assert accepted.getpeername()[0] == HERE[0]


def test_a_chain_of_dockers_that_no_packet_enters_is_not_used(machine: OwnMachine) -> None:
    """Flushing FORWARD leaves Docker's chain, and takes the way into it."""
    machine.sh("iptables-restore --noflush", DOCKERS)
    machine.sh("iptables -w -F FORWARD")
    machine.do(machine.default.prepare)
    assert machine.sh("iptables -w -S FORWARD").count("ACCEPT") == 2
