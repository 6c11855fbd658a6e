"""Addresses that the node's configuration chooses for pods: both IP versions, and a change."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.clock import RealClock
from edged.settings.pod_cidrs import parse_pod_cidrs
from modules.runtimes.oci.network.attachment import read_attachment
from modules.runtimes.oci.network.bridge import addresses_of_bridge, remove_bridge
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.network.pod_network import PodNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import PLUGINS, needs_plugins
from tests.modules.runtimes.oci.network.own_machine import BESIDE, BOTH, BRIDGE, HERE, OwnMachine, own_machine

OTHERS = ("10.99.0.0/24", "fd00:99::/64")


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("10.1.0.0/16", ("10.1.0.0/16",)),
        ("fd00:1:0:0::/64", ("fd00:1::/64",)),
        ("10.1.0.0/16, fd00::/126", ("10.1.0.0/16", "fd00::/126")),
        ("fd00::/64,192.168.7.0/30", ("fd00::/64", "192.168.7.0/30")),
    ],
)
def test_ranges(text: str, ranges: tuple[str, ...]) -> None:
    """One of each IP version, in the form that iptables prints."""
    assert parse_pod_cidrs(text) == ranges


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.1.0.0", "no prefix length"),
        ("10.1.2.3/16", "the range is 10.1.0.0/16"),
        ("10.1.0.0/33", "does not appear to be an IPv4 or IPv6 network"),
        ("pods/16", "does not appear to be an IPv4 or IPv6 network"),
        ("10.1.0.0/31", "/30 is the smallest range"),
        ("fd00::/127", "/126 is the smallest range"),
        ("0.0.0.0/0", "/8 is the largest range"),
        ("127.0.0.0/16", "no range for pods"),
        ("fe80::/64", "no range for pods"),
        ("10.1.0.0/16,10.2.0.0/16", "one is possible of each IP version"),
        ("10.1.0.0/16,", "no prefix length"),
    ],
)
def test_no_ranges(text: str, reason: str) -> None:
    """The reason says how it is right."""
    with pytest.raises(ValueError, match=reason):
        parse_pod_cidrs(text)


@pytest.fixture
def machine(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> Iterator[OwnMachine]:
    """A machine that drops packets to be forwarded."""
    with own_machine(directory, namespaces, clock) as made:
        for program in ("iptables", "ip6tables"):
            made.sh(f"{program} -w -P FORWARD DROP")
        yield made


def assert_reaches(source: Path, address: str, port: int, server: Path, at: str = "") -> None:
    """Assert that a connection from one namespace to an address arrives in another."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = in_network_namespace(server, lambda: socket.create_server((at, 80), family=family))
    listening.settimeout(60)
    with listening, in_network_namespace(source, lambda: socket.create_connection((address, port), 60)):
        listening.accept()[0].close()


@needs_plugins
@pytest.mark.extended
def test_pods_reach_each_other_by_both_versions(machine: OwnMachine) -> None:
    """Each has an address of each range, IPv4 first."""
    first, second = machine.up("a1"), machine.up("a2")
    assert [first.ip, *first.additional] == ["10.86.0.2", "fd00:86::2"]
    for address in (second.ip, *second.additional):
        assert_reaches(machine.pod("a1"), address, 80, machine.pod("a2"))


@needs_plugins
@pytest.mark.extended
def test_a_host_port_of_ipv6(machine: OwnMachine) -> None:
    """From another machine; and with a host address only there."""
    machine.up("b1", cri.PortMapping(container_port=80, host_port=8080))
    assert_reaches(machine.beside, HERE[1], 8080, machine.pod("b1"))
    machine.up("b2", cri.PortMapping(container_port=80, host_port=8081, host_ip=HERE[1]))
    assert_reaches(machine.beside, HERE[1], 8081, machine.pod("b2"))
    with pytest.raises(ConnectionRefusedError):
        in_network_namespace(machine.beside, lambda: socket.create_connection((HERE[0], 8081), 60))


@needs_plugins
@pytest.mark.extended
def test_only_ipv6(machine: OwnMachine) -> None:
    """A pod without IPv4 reaches a machine of another network."""
    network = machine.pods_on(machine.network_of(BOTH[1:]))
    addresses = machine.up("c1", network=network)
    assert (addresses.ip, addresses.additional) == ("fd00:86::2", ())
    assert_reaches(machine.pod("c1"), BESIDE[1], 80, machine.beside)
    network.close()


@needs_plugins
@pytest.mark.extended
def test_a_bridge_answers_for_its_ipv6_address_immediately(machine: OwnMachine) -> None:
    """The first pod would have no route while the kernel looks for a duplicate; also if somebody removed the bridge."""
    for sandbox_id in ("i1", "i2"):
        machine.up(sandbox_id)
        assert "tentative" not in machine.sh(f"ip -6 address show dev {BRIDGE} scope global")
        machine.do(lambda: remove_bridge(BRIDGE))


@needs_plugins
@pytest.mark.extended
def test_other_ranges_wait_until_no_pod_has_the_former(machine: OwnMachine) -> None:
    """The message says what to do; then the bridge and the rules are made again."""
    machine.up("d1")
    later = machine.pods_on(machine.network_of(OTHERS))
    with pytest.raises(PodNetworkError, match=r"has the address 10\.86\.0\.1/16 for 1 pods.*podCIDR"):
        machine.up("d2", network=later)
    assert_reaches(machine.netns, "10.86.0.2", 80, machine.pod("d1"))
    machine.down("d1", later)
    addresses = machine.up("d3", network=later)
    assert [addresses.ip, *addresses.additional] == ["10.99.0.2", "fd00:99::2"]
    assert_reaches(machine.pod("d3"), BESIDE[0], 80, machine.beside)
    assert {str(each) for each in machine.do(lambda: addresses_of_bridge(BRIDGE))} == {"10.99.0.1/24", "fd00:99::1/64"}
    assert "10.86.0.0" not in machine.sh("iptables-save")
    assert "fd00:86" not in machine.sh("ip6tables-save")
    later.close()


@needs_plugins
@pytest.mark.extended
def test_a_second_ip_version_is_added_beside_pods(machine: OwnMachine) -> None:
    """Nothing of the first one changes."""
    single = machine.pods_on(machine.network_of(BOTH[:1]))
    machine.up("e1", network=single)
    addresses = machine.up("e2")
    assert (addresses.ip, addresses.additional) == ("10.86.0.3", ("fd00:86::2",))
    assert_reaches(machine.pod("e1"), addresses.ip, 80, machine.pod("e2"))
    single.close()


@needs_plugins
@pytest.mark.extended
def test_a_start_reports_that_other_ranges_have_to_wait(machine: OwnMachine, caplog: pytest.LogCaptureFixture) -> None:
    """And says nothing when they have not."""
    machine.up("f1")
    machine.do(lambda: machine.pods_on(machine.default).watch({}))
    assert "further pods get no network" not in caplog.text
    machine.do(lambda: machine.pods_on(machine.network_of(OTHERS)).watch({}))
    assert "further pods get no network: edgecore0 has the address 10.86.0.1/16 for 1 pods" in caplog.text


@needs_plugins
@pytest.mark.extended
def test_a_plugin_that_takes_ranges_gets_them(machine: OwnMachine) -> None:
    """By the capability `ipRanges`, if a configuration declares it; host-local gives an address of them."""
    (machine.directory / "net.d").mkdir()
    ipam = {"type": "host-local", "dataDir": str(machine.directory / "leases")}
    bridge = {"type": "bridge", "bridge": "other0", "capabilities": {"ipRanges": True}, "ipam": ipam}
    content = {"cniVersion": "1.0.0", "name": "other", "plugins": [bridge]}
    (machine.directory / "net.d" / "1.conflist").write_text(json.dumps(content))
    network = PodNetwork(machine.directory / "net.d", [PLUGINS], RealClock(), ranges=OTHERS)
    addresses = machine.up("g1", network=network)
    assert [addresses.ip, *addresses.additional] == ["10.99.0.2", "fd00:99::2"]
    attachment = read_attachment(machine.home("g1"))
    assert attachment is not None
    assert attachment.capabilities["ipRanges"] == [[{"subnet": each}] for each in OTHERS]
    machine.down("g1", network)


@needs_plugins
@pytest.mark.extended
def test_a_bridge_that_is_missing_has_no_addresses(machine: OwnMachine) -> None:
    """And removing it does nothing."""
    assert machine.do(lambda: addresses_of_bridge(BRIDGE)) == []
    machine.do(lambda: remove_bridge(BRIDGE))
