"""No pod sends with the addresses of another: frames written by a pod with NET_RAW, on a bridge of the test's own."""

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network import nf_tables
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.network.senders import TABLE, Sender, link_local, sender_of
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_plugins
from tests.modules.runtimes.oci.network.own_machine import BRIDGE, HERE, OwnMachine
from tests.modules.runtimes.oci.network.test_loopback_firewall import checksum
from tests.modules.runtimes.process.node import eventually
from tests.support.patience import PATIENCE

_ALL: Final = 0x0003
_EVERYBODY: Final = b"\xff" * 6
_LLDP: Final = bytes.fromhex("0180c200000e")
_ALL_NODES: Final = ipaddress.ip_address("ff02::1").packed
_MARKER: Final = b"the frame that ends a look"
_FORGED: Final = b"a frame of the test"
_ARP, _IPV4, _TAG, _IPV6 = b"\x08\x06", b"\x08\x00", b"\x81\x00", b"\x86\xdd"


class End(NamedTuple):
    """A pod on the bridge."""

    name: str
    mac: bytes
    ipv4: bytes
    ipv6: bytes
    netns: Path

    def open(self) -> socket.socket:
        """A socket for the frames of its interface."""
        raw = in_network_namespace(
            self.netns, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        )
        raw.bind(("eth0", _ALL))
        raw.settimeout(PATIENCE)
        return raw


class Frames(NamedTuple):
    """Who forges, whose addresses they take, and those of the gateway."""

    own: End
    victim: End
    gateway: bytes
    gateway_mac: bytes


def end(machine: OwnMachine, name: str, *ports: cri.PortMapping, network: PodNetwork | None = None) -> End:
    """Run a sandbox."""
    addresses = machine.up(name, *ports, network=network)
    netns = machine.pod(name)

    def mac() -> bytes:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("eth0", 0))
            return bytes(raw.getsockname()[4])

    ipv4, ipv6 = (ipaddress.ip_address(each).packed for each in (addresses.ip, *addresses.additional))
    return End(name, in_network_namespace(netns, mac), ipv4, ipv6, netns)


def frames_of(machine: OwnMachine) -> Frames:
    """Two pods and their gateway."""
    own, victim = end(machine, "p1"), end(machine, "p2")
    line = machine.sh(f"ip -o link show {BRIDGE}")
    mac = bytes.fromhex(line.split("link/ether ")[1].split()[0].replace(":", ""))
    return Frames(own, victim, socket.inet_aton("10.86.0.1"), mac)


def ipv4(source: bytes, target: bytes, content: bytes) -> bytes:
    """A packet of UDP, port 9."""
    segment = struct.pack("!HHHH", 9, 9, 8 + len(content), 0) + content
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, 17, 0) + source + target
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + segment


def arp(mac: bytes, address: bytes, asked: bytes, operation: int = 2) -> bytes:
    """A message of ARP: an answer, or a question; padded with a text to know it by."""
    return struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + mac + address + _EVERYBODY + asked + _FORGED


def icmpv6(source: bytes, kind: int, content: bytes, *, before: bytes = b"") -> bytes:
    """A message to all nodes; `before` are headers of extensions, which begin with the number of the next one."""
    body = struct.pack("!BBHI", kind, 0, 0, 0) + content + _FORGED
    body += bytes(len(body) % 2)
    sum_of = checksum(source + _ALL_NODES + struct.pack("!II", len(body), 58) + body)
    body = body[:2] + struct.pack("!H", sum_of) + body[4:]
    first = 0 if before else 58
    return struct.pack("!IHBB", 6 << 28, len(before) + len(body), first, 255) + source + _ALL_NODES + before + body


def seen(by: Sequence[End], of: End, *frames: bytes) -> list[bool]:
    """Send frames, and one that everybody gets; return who has seen the former before the latter."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(each.open()) for each in by]
        raw = stack.enter_context(of.open())
        marker = _EVERYBODY + of.mac + _IPV4 + ipv4(of.ipv4, b"\xff" * 4, _MARKER)
        for each in (*frames, marker):
            raw.send(each)
        found = []
        for one in sockets:
            before = list(_until_marker(one))
            found.append(any(_FORGED in each for each in before))
        return found


def _until_marker(raw: socket.socket) -> Iterator[bytes]:
    while _MARKER not in (frame := raw.recv(4096)):
        yield frame


HOP_BY_HOP: Final = bytes([58, 0, 1, 4, 0, 0, 0, 0])
"""An extension with nothing in it, before ICMPv6."""


def forged(it: Frames) -> dict[str, bytes]:
    """What must not get on the bridge, by what it would do."""
    own, other = it.own, it.victim
    head = _EVERYBODY + own.mac
    advertisement = icmpv6(own.ipv6, 136, other.ipv6 + b"\x02\x01" + own.mac)
    hidden = icmpv6(own.ipv6, 136, other.ipv6 + b"\x02\x01" + own.mac, before=HOP_BY_HOP)
    router = bytes(8) + b"\x01\x01" + own.mac
    return {
        "another's MAC": _EVERYBODY + other.mac + _IPV4 + ipv4(own.ipv4, b"\xff" * 4, _FORGED),
        "the gateway's MAC": _EVERYBODY + it.gateway_mac + _IPV4 + ipv4(own.ipv4, b"\xff" * 4, _FORGED),
        "another's IPv4 address": head + _IPV4 + ipv4(other.ipv4, b"\xff" * 4, _FORGED),
        "no IPv4 address": head + _IPV4 + ipv4(bytes(4), b"\xff" * 4, _FORGED),
        "an address of the machine's own": head + _IPV4 + ipv4(b"\x7f\0\0\1", b"\xff" * 4, _FORGED),
        "ARP for another": head + _ARP + arp(own.mac, other.ipv4, other.ipv4),
        "ARP for the gateway": head + _ARP + arp(own.mac, it.gateway, it.gateway),
        "ARP that asks in another's name": head + _ARP + arp(own.mac, other.ipv4, it.gateway, 1),
        "ARP with another's MAC": head + _ARP + arp(other.mac, own.ipv4, own.ipv4),
        "ARP in a frame of another": _EVERYBODY + other.mac + _ARP + arp(own.mac, own.ipv4, own.ipv4),
        "ARP with a tag that is taken off": head + _TAG + bytes(2) + _ARP + arp(own.mac, other.ipv4, other.ipv4),
        "another's IPv6 address": head + _IPV6 + icmpv6(other.ipv6, 128, b""),
        "another's link-local address": head + _IPV6 + icmpv6(link_local(other.mac), 128, b""),
        "no IPv6 address": head + _IPV6 + icmpv6(bytes(16), 128, b""),
        "an advertisement for another": head + _IPV6 + advertisement,
        "one behind an extension": head + _IPV6 + hidden,
        "another's address is said to be taken": head + _IPV6 + icmpv6(bytes(16), 135, other.ipv6),
        "a router's advertisement": head + _IPV6 + icmpv6(link_local(own.mac), 134, router),
        "a redirection": head + _IPV6 + icmpv6(link_local(own.mac), 137, own.ipv6 + other.ipv6),
        "another protocol": head + b"\x88\xcc" + _FORGED,
    }


def honest(it: Frames) -> dict[str, bytes]:
    """What must get there."""
    own, other = it.own, it.victim
    head = _EVERYBODY + own.mac
    return {
        "IPv4": head + _IPV4 + ipv4(own.ipv4, b"\xff" * 4, _FORGED),
        "ARP that asks": head + _ARP + arp(own.mac, own.ipv4, other.ipv4, 1),
        "ARP that answers": head + _ARP + arp(own.mac, own.ipv4, own.ipv4),
        "IPv6": head + _IPV6 + icmpv6(own.ipv6, 128, b""),
        "link-local": head + _IPV6 + icmpv6(link_local(own.mac), 128, b""),
        "it asks for another": head + _IPV6 + icmpv6(own.ipv6, 135, other.ipv6),
        "it looks for duplicates": head + _IPV6 + icmpv6(bytes(16), 135, own.ipv6),
        "also of its link-local address": head + _IPV6 + icmpv6(bytes(16), 135, link_local(own.mac)),
        "it advertises itself": head + _IPV6 + icmpv6(own.ipv6, 136, own.ipv6),
        "it asks for routers": head + _IPV6 + icmpv6(bytes(16), 133, b""),
        "it listens to a group": head + _IPV6 + icmpv6(bytes(16), 143, bytes(20)),
    }


@needs_plugins
@pytest.mark.extended
def test_forged_packets_reach_nobody_and_honest_ones_do(machine: OwnMachine) -> None:
    """Also at once after a pod has got its addresses."""
    it = frames_of(machine)
    for what, frame in forged(it).items():
        assert seen([it.victim], it.own, frame) == [False], what
    for what, frame in honest(it).items():
        assert seen([it.victim], it.own, frame) == [True], what


@needs_plugins
@pytest.mark.parametrize("target", [_EVERYBODY, _LLDP], ids=["all", "the bridge alone"])
@pytest.mark.extended
def test_a_bridge_does_not_learn_that_a_pod_has_the_mac_of_another(machine: OwnMachine, target: bytes) -> None:
    """Not from a frame that no firewall sees, either. The victim's frames reach the victim, and nobody else."""
    it = frames_of(machine)
    third = end(machine, "p3")
    assert seen([it.own], it.victim) == [False], "now the bridge knows where the victim is"
    with it.own.open() as raw:
        raw.send(target + it.victim.mac + b"\x88\xcc" + bytes(50))
        raw.send(target + it.victim.mac + _IPV4 + ipv4(it.victim.ipv4, b"\xff" * 4, b""))
    to_victim = it.victim.mac + third.mac + _IPV4 + ipv4(third.ipv4, it.victim.ipv4, _FORGED)
    assert seen([it.own, it.victim], third, to_victim) == [False, True]


@needs_plugins
@pytest.mark.extended
def test_connections_go_on(machine: OwnMachine) -> None:
    """Of IPv4 and IPv6, to a link-local address, to a host port of the pod's own, and to another machine."""
    it = frames_of(machine)
    third = end(machine, "p3", cri.PortMapping(container_port=80, host_port=8080))
    local = socket.inet_ntop(socket.AF_INET6, link_local(it.victim.mac))
    eventually(lambda: "tentative" not in machine.sh(f"nsenter --net={it.victim.netns} ip -6 address show dev eth0"))
    eventually(lambda: "tentative" not in machine.sh(f"nsenter --net={third.netns} ip -6 address show dev eth0"))
    connect(third.netns, it.victim.netns, f"{local}%eth0")
    connect(third.netns, it.victim.netns, socket.inet_ntop(socket.AF_INET6, it.victim.ipv6))
    connect(third.netns, it.victim.netns, socket.inet_ntoa(it.victim.ipv4))
    connect(third.netns, third.netns, HERE[0], 8080)
    connect(third.netns, third.netns, HERE[1], 8080)
    connect(machine.netns, third.netns, "127.0.0.1", 8080)


def connect(source: Path, target: Path, address: str, port: int = 80) -> None:
    """Assert that a connection arrives."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    where = in_network_namespace(source, lambda: socket.getaddrinfo(address, port, family, socket.SOCK_STREAM)[0][4])
    server = in_network_namespace(target, lambda: socket.create_server(("", 80), family=family))
    server.settimeout(PATIENCE)

    def open_one() -> socket.socket:
        made = socket.socket(family)
        made.settimeout(PATIENCE)
        made.connect(where)
        return made

    with server, in_network_namespace(source, open_one):
        server.accept()[0].close()


def elements(machine: OwnMachine) -> int:
    """The number of interfaces that are bound."""
    return len(machine.do(lambda: nf_tables.keys_of(TABLE, "links")))


@needs_plugins
@pytest.mark.extended
def test_it_comes_back_after_a_reload(machine: OwnMachine, caplog: pytest.LogCaptureFixture) -> None:
    """With the look once a minute, with the next pod, and with a restart of edgecore that finds pods."""
    it = frames_of(machine)
    frame = forged(it)["ARP for the gateway"]
    machine.do(lambda: nf_tables.apply([nf_tables.without_table(TABLE)]))
    assert seen([it.victim], it.own, frame) == [True], "the frame does harm where nothing stops it"
    machine.do(machine.network.check_rules)
    assert seen([it.victim], it.own, frame) == [False]
    assert caplog.text.count("firewall rules of pods were missing") == 1
    machine.do(machine.network.check_rules)
    assert caplog.text.count("firewall rules of pods were missing") == 1
    machine.do(lambda: nf_tables.apply([nf_tables.without_rules(TABLE, "pod-arp")]))
    machine.do(machine.network.check_rules)
    assert seen([it.victim], it.own, frame) == [False]
    machine.do(lambda: nf_tables.apply([nf_tables.without_table(TABLE)]))
    third = end(machine, "p3")
    assert seen([it.victim], third, _EVERYBODY + third.mac + _ARP + arp(third.mac, it.gateway, it.gateway)) == [False]
    with closing(machine.pods_on(machine.network_of(("10.86.0.0/16", "fd00:86::/64")))) as later:
        pods = {each.name: AttachedSandbox(machine.home(each.name), lambda: None) for each in (it.own, it.victim)}
        machine.do(lambda: later.watch(pods))
        eventually(lambda: elements(machine) == 3)
    assert seen([it.victim], it.own, frame) == [False]


@needs_plugins
@pytest.mark.extended
def test_it_is_removed_with_the_pods(machine: OwnMachine) -> None:
    """With the next look, with the last pod, and the table with the bridge."""
    for name in ("p1", "p2", "p3"):
        machine.up(name)
    assert elements(machine) == 3
    machine.down("p1")
    machine.do(machine.network.check_rules)
    assert elements(machine) == 2
    machine.down("p2")
    machine.down("p3")
    assert elements(machine) == 0
    assert machine.do(lambda: nf_tables.number_of_rules(TABLE))
    machine.do(machine.default.remove)
    assert machine.do(lambda: nf_tables.number_of_rules(TABLE)) == 0
    machine.do(machine.default.remove)


@needs_plugins
@pytest.mark.extended
def test_an_address_belongs_to_the_next_pod_that_gets_it_before_the_look(machine: OwnMachine) -> None:
    """A range of five addresses: the sixth pod gets the one of the first, which has ended a moment ago."""
    with closing(machine.pods_on(machine.network_of(("10.86.0.0/29", "fd00:86::/64")))) as network:
        first, *others = [end(machine, f"p{number}", network=network) for number in range(5)]
        machine.down("p0", network)
        sixth = end(machine, "p5", network=network)
        assert sixth.ipv4 == first.ipv4
        assert elements(machine) == 6, "the first one's are there until the look"
        head, address = _EVERYBODY + sixth.mac, sixth.ipv4
        assert seen(others, sixth, head + _IPV4 + ipv4(address, b"\xff" * 4, _FORGED)) == [True] * 4
        assert seen(others, sixth, head + _ARP + arp(sixth.mac, address, address)) == [True] * 4
        for mac in (first.mac, sixth.mac, others[0].mac):
            frame = _EVERYBODY + others[0].mac + _ARP + arp(mac, address, address)
            assert seen([sixth], others[0], frame) == [False], "the address is nobody else's"
        machine.do(network.check_rules)
        assert seen(others, sixth, head + _ARP + arp(sixth.mac, address, address)) == [True] * 4


@needs_plugins
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
@pytest.mark.extended
def test_neighbours_learn_who_has_an_address_now(machine: OwnMachine, family: socket.AddressFamily) -> None:
    """The machine, and another pod; they have talked with the first pod of the address, which had another MAC. There
    are five addresses of IPv4 and six of IPv6, so the seventh pod gets both of the first.
    """
    with closing(machine.pods_on(machine.network_of(("10.86.0.0/29", "fd00:86::/125")))) as network:
        first, other, *_ = [end(machine, f"p{number}", network=network) for number in range(5)]
        machine.down("p0", network)
        end(machine, "p5", network=network)
        machine.down("p5", network)
        neighbours = ((machine.netns, BRIDGE), (other.netns, "eth0"))
        mac = first.mac.hex(":")
        address = socket.inet_ntop(family, first.ipv4 if family == socket.AF_INET else first.ipv6)
        for netns, link in neighbours:
            machine.sh(f"nsenter --net={netns} ip neigh replace {address} lladdr {mac} dev {link} nud stale")
        last = end(machine, "p6", network=network)
        assert (last.ipv4, last.ipv6, last.mac == first.mac) == (first.ipv4, first.ipv6, False)
        for netns, link in neighbours:
            known = f"nsenter --net={netns} ip neigh show {address} dev {link}"
            eventually(lambda known=known: f"lladdr {last.mac.hex(':')} " in machine.sh(known))  # type: ignore[misc]


@needs_plugins
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EOPNOTSUPP, "this kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE)"),
        (errno.EPERM, "nftables refuses the table edgecore-pods: Operation not permitted"),
    ],
)
@pytest.mark.extended
def test_pods_run_where_the_kernel_refuses(
    machine: OwnMachine, code: int, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log has one line."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    for name in ("apply", "number_of_rules", "keys_of"):
        monkeypatch.setattr(nf_tables, name, refuse)
    machine.up("p1")
    machine.up("p2")
    machine.do(machine.network.check_rules)
    machine.down("p1")
    assert caplog.text.count(f"pods can send with addresses of other pods: {reason}") == 1


def result(**changes: object) -> dict[str, object]:
    """A result of the plug-in `bridge`."""
    interfaces = [
        {"name": BRIDGE, "mac": "02:00:00:00:00:01"},
        {"name": "veth1", "mac": "02:00:00:00:00:02"},
        {"name": "eth0", "mac": "02:00:00:00:00:03", "sandbox": "/proc/1/ns/net"},
    ]
    return {"interfaces": interfaces, "ips": [{"address": "10.86.0.2/16", "interface": 2}], **changes}


def test_a_result_names_the_pods_ends() -> None:
    """The machine's end of the veth, the pod's MAC and addresses."""
    mac = bytes.fromhex("020000000003")
    assert sender_of(result(), BRIDGE) == Sender("veth1", mac, PodAddresses("10.86.0.2", ()))
    assert socket.inet_ntop(socket.AF_INET6, link_local(mac)) == "fe80::ff:fe00:3"


@pytest.mark.parametrize(
    "interfaces",
    [
        [],
        7,
        [{"name": BRIDGE}, {"name": "eth0", "mac": "02:00:00:00:00:03", "sandbox": "/x"}],
        [{"name": "veth1"}, {"name": "eth0", "mac": "", "sandbox": "/x"}],
        [{"name": "veth1"}, {"name": "eth0", "mac": "no", "sandbox": "/x"}],
        [{"name": "v" * 16}, {"name": "eth0", "mac": "02:00:00:00:00:03", "sandbox": "/x"}],
    ],
)
def test_a_result_without_them(interfaces: object) -> None:
    """It is refused as a whole."""
    with pytest.raises(ValueError, match=r"interfaces"):
        sender_of(result(interfaces=interfaces), BRIDGE)


def test_many_pods_fit_a_transaction() -> None:
    """An attribute has 64 KiB at most."""
    keys = [bytes(48) for _ in range(1000)]
    assert all(len(each) < 65_536 for each in nf_tables.elements(TABLE, "ipv6", keys))
    assert sum(each.count(bytes(48)) for each in nf_tables.elements(TABLE, "ipv6", keys)) == 1000
