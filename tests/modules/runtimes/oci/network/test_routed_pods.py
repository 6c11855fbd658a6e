"""Addresses with which other machines see pods, in ranges that are routed between nodes and beyond them."""

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.network.firewall import read_rules
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces
from tests.modules.runtimes.oci.network.machine import needs_plugins
from tests.modules.runtimes.oci.network.own_machine import BESIDE, BOTH, HERE, OwnMachine, own_machine

pytestmark = needs_plugins

PODS_BESIDE = ("10.87.0.1", "fd00:87::1")
"""Addresses of pods at the machine beside, which knows the way back to the pods of this one."""
POD = ("10.86.0.2", "fd00:86::2")
WHOLE = ("10.80.0.0/12", "10.86.0.0/15", "fd00::/16")
"""Ranges that contain the pods of both machines."""
SEVERAL = (*BOTH, "10.87.0.0/24", "10.88.0.0/16", "fd00:87::/64", "fd00:88::/64")
"""A range for each machine, and for one that is not there."""


@pytest.fixture
def machine(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> Iterator[OwnMachine]:
    with own_machine(directory, namespaces, clock) as made:
        for address, here, beside, pods in zip(PODS_BESIDE, HERE, BESIDE, BOTH, strict=True):
            made.sh_beside(f"ip address add {address} dev inside {'nodad' if ':' in address else ''}")
            made.sh_beside(f"ip route add {pods} via {here}")
            made.sh(f"ip route add {address} via {beside}")
        yield made


def seen(machine: OwnMachine, sandbox_id: str, address: str) -> str:
    """Return the address that the machine beside sees a pod with, at one of its own addresses."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = in_network_namespace(machine.beside, lambda: socket.create_server((address, 80), family=family))
    server.settimeout(60)
    pod = machine.pod(sandbox_id)
    client = in_network_namespace(pod, lambda: socket.create_connection((address, 80), 60))
    with server, client, server.accept()[0] as accepted:
        return str(ipaddress.ip_address(accepted.getpeername()[0]))


@pytest.mark.parametrize(
    ("routed", "there"),
    [
        (WHOLE, POD),
        ((), HERE),
        (SEVERAL, POD),
        (("10.87.0.0/16", "fd00:87::/64"), HERE),
        (("0.0.0.0/0", "::/0"), HERE),
    ],
    ids=["the-whole", "none", "each-node's", "of-others", "all"],
)
def test_pods_have_their_own_addresses_where_these_are_routed(
    machine: OwnMachine, routed: Sequence[str], there: Sequence[str]
) -> None:
    """A machine that only its own range is routed to may know no way back; elsewhere pods have the node's address."""
    default = machine.network_of(BOTH, routed)
    network = machine.pods_on(default)
    machine.up("a1", network=network)
    assert not machine.do(lambda: default.restore(read_rules)), "the rule is found as iptables-save writes it"
    assert [seen(machine, "a1", each) for each in PODS_BESIDE] == list(there)
    assert [seen(machine, "a1", each) for each in BESIDE] == list(HERE)
    network.close()


@pytest.mark.parametrize(("routed", "there"), [(SEVERAL, POD), ((), HERE)], ids=["more", "fewer"])
def test_a_start_with_other_ranges_replaces_the_rule(
    machine: OwnMachine, routed: Sequence[str], there: Sequence[str]
) -> None:
    """Beside running pods, whose further connections it is for; the rules of others stay."""
    former = machine.pods_on(machine.network_of(BOTH, () if routed else SEVERAL))
    machine.sh("iptables -w -t nat -A POSTROUTING -s 10.86.0.0/16 ! -d 10.86.0.0/16 -p sctp -j MASQUERADE")
    machine.up("b1", network=former)
    former.close()
    later = machine.pods_on(machine.network_of(BOTH, routed))
    machine.up("b2", network=later)
    assert [seen(machine, "b1", each) for each in PODS_BESIDE] == list(there)
    saved = [each for each in machine.sh("iptables-save -t nat").splitlines() if "-j MASQUERADE" in each]
    assert len([each for each in saved if "edgecore: pods of" in each]) == 1
    assert len([each for each in saved if "-p sctp" in each]) == 1
    later.close()
