"""News of the network: what the kernel sends, what of it matters, the socket itself, and a real cable."""

import ctypes
import os
import queue
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgehub
from beehive import Hive, Threads
from beehive.sockets.netlink import NetlinkListener
from edgehub.network import netlink
from edgehub.network.changes import MOST_REMEMBERED, NetworkChanges, worth_a_line
from edgehub.network.messages import Address, DefaultRoute, InterfaceState, read
from edgehub.network.netlink import Netlink, default_devices
from tests.edgehub.clouds import LibraryCloud
from tests.edgehub.links import settings
from tests.end_to_end.processes import wait_until
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

UP = 0x1 | 0x40


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def datagram(kind: int, body: bytes) -> bytes:
    """One message of the kernel, padded."""
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body + b"\0" * (-len(body) % 4)


def link(kind: int = 16, device: int = 2, flags: int = UP, attributes: bytes = b"", family: int = 0) -> bytes:
    """A device."""
    return datagram(kind, struct.pack("=BxHiII", family, 1, device, flags, 0) + attributes)


def address(kind: int = 20, device: int = 2, scope: int = 0, value: bytes = b"\xc0\0\2\1", peer: bytes = b"") -> bytes:
    """An address, and that of the other end of a tunnel."""
    other = attribute(1, peer) if peer else b""
    return datagram(kind, struct.pack("=BBBBI", 2, 24, 0, scope, device) + other + attribute(2, value))


def route(
    kind: int = 24, bits: int = 0, table: int = 254, gateway: bytes = b"\xc0\0\2\xfe", type_: int = 1, device: int = 2
) -> bytes:
    """A route."""
    body = struct.pack("=BBBBBBBBI", 2, bits, 0, 0, table, 3, 0, type_, 0)
    return datagram(kind, body + attribute(4, device.to_bytes(4, "little")) + attribute(5, gateway))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (link(), [InterfaceState(2, runs=True)]),
        (link(flags=1), [InterfaceState(2, runs=False)]),
        (link(kind=17), [InterfaceState(2, runs=False)]),
        (link(flags=UP | 8), []),
        (link(attributes=attribute(10, b"\5\0\0\0")), []),
        (link(family=7), []),
        (address(), [Address(2, b"\xc0\0\2\1", there=True)]),
        (address(kind=21), [Address(2, b"\xc0\0\2\1", there=False)]),
        (address(value=b"\xc0\0\2\2", peer=b"\xc0\0\2\1"), [Address(2, b"\xc0\0\2\2", there=True)]),
        (address(scope=253), []),
        (address(scope=254), []),
        (route(), [DefaultRoute((2, b"\2\0\0\0", b"\xc0\0\2\xfe", b""), there=True)]),
        (route(bits=24), []),
        (route(table=255), []),
        (route(type_=6), []),
        (datagram(28, b"\0" * 12), []),
        (link() + address() + route(), ["three"]),
        (b"", []),
        (link()[:-1], []),
        (struct.pack("=IHHII", 8, 16, 0, 0, 0), []),
        (struct.pack("=IHHII", 0xFFFFFFFF, 16, 0, 0, 0), []),
    ],
)
def test_notifications_are_parsed(data: bytes, expected: list[object]) -> None:
    """Only devices that are not ports of a bridge or bond, addresses of wider than link scope, and default routes."""
    found = list(read(data))
    assert found == expected or (expected == ["three"] and len(found) == 3)


@given(st.binary(max_size=300))
def test_nothing_that_comes_can_harm(data: bytes) -> None:
    """Nor what is almost right."""
    NetworkChanges().describe(read(data))
    NetworkChanges().describe(read(link() + data))
    NetworkChanges().describe(read(datagram(24, data)))
    NetworkChanges().describe(read(datagram(16, data)))


def test_only_new_facts_are_changes() -> None:
    """A router advertisement renews what is known."""
    changes = NetworkChanges()
    assert changes.describe(read(link(device=7))) == "another device is up"
    assert changes.describe(read(address() + route())) == "another address has come, the default route has come"
    assert changes.describe(read(address() + route())) == ""
    assert changes.describe(read(route(gateway=b"\xc0\0\2\xfd"))) == "the default route has come"
    assert changes.describe(read(link(attributes=attribute(3, b"wlan0\0")))) == "device wlan0 is up"
    assert changes.describe(read(link())) == ""
    assert changes.describe(read(link(flags=1))) == "device 2 is down"
    assert changes.describe(read(address(kind=21))) == "an address has gone"
    assert changes.describe(read(address())) == "an address has come"
    assert changes.describe(read(link(device=9, flags=1))) == "another device is down", "it may have been up before"


def test_a_device_that_had_the_default_route_is_a_way_out_however_many_pods_come_and_go() -> None:
    """Its end may have a hanging dial broken off."""
    changes = NetworkChanges()
    changes.describe(read(route()))
    assert changes.describe(read(route(kind=25))) == "the default route has gone"
    for device in range(10, 10 + MOST_REMEMBERED):
        changes.describe(read(link(device=device)))
        changes.describe(read(link(kind=17, device=device)))
    changes.describe(read(link()))
    assert changes.describe(read(link(flags=1))) == "device 2 is down"


def test_the_number_of_remembered_devices_is_bounded() -> None:
    """Devices without number do not take the memory."""
    changes = NetworkChanges()
    for device in range(2 * MOST_REMEMBERED):
        changes.describe([InterfaceState(device, runs=True), *read(route(device=device))])
    for kept in (changes._links, changes._there, changes._routed):
        assert len(kept) <= MOST_REMEMBERED + 1


class Listening:
    """A socket with a listening thread."""

    def __init__(self, make: Callable[[], Netlink] = Netlink) -> None:
        self.netlink = make()
        self.told: queue.Queue[str] = queue.Queue()
        self.thread = threading.Thread(target=self.netlink.run, args=(self.told.put,), name="netlink")
        self.thread.start()

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self.netlink.close()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    def wait(self, wanted: str) -> None:
        """Returns after the expected news; other news does not count."""
        while wanted not in self.told.get(timeout=PATIENCE):
            pass


def test_the_socket_ends_on_request() -> None:
    """Immediately, also twice."""
    with Listening() as listening:
        listening.netlink.close()
        listening.netlink.close()


class Told(NetlinkListener):
    """Reads what the test sends in place of the kernel."""

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE, 0)
        self._socket.close()
        self._socket, self.kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


class ToldNetlink(Netlink):
    """Notifications of the test."""

    def __init__(self, told: Told) -> None:
        self._kernel = told


def test_events_close_together_are_delivered_together() -> None:
    """A device of another program comes up, and then the node gets its address: the log line has both."""
    told = Told()
    with told.kernel:
        for one in (link(), address(), route(), link(), route()):
            told.kernel.send(one)
        with Listening(lambda: ToldNetlink(told)) as listening:
            expected = "another device is up, another address has come, the default route has come"
            assert listening.told.get(timeout=PATIENCE) == expected


def test_devices_without_a_default_route_are_worth_no_line() -> None:
    """A machine with pods has many that come and go."""
    assert not worth_a_line("another device is up, another address has come, another device is down")
    assert worth_a_line("another device is up, an address has come") == "an address has come"
    assert worth_a_line("device wlan0 is down") == "device wlan0 is down"


def test_news_without_a_change_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Mock(**{"read.return_value": b"", "has_more.return_value": False})
    monkeypatch.setattr(netlink, "NetlinkListener", lambda *_: kernel)
    told: list[str] = []
    kernel.listen.side_effect = lambda report: report()
    Netlink().run(told.append)
    assert told == []
    kernel.pause.assert_not_called()


def test_the_devices_of_the_default_routes_are_read(tmp_path: Path) -> None:
    """Of IPv4 and IPv6; a missing file has no routes."""
    assert default_devices(tmp_path) == set()
    one, zero = socket.if_nameindex()[0], "00000000"
    row = "{name}\t{to}\t0100A8C0\t0003\t0\t0\t0\t{mask}\t0\t0\t0\n"
    rows = [
        ("Iface", "Destination", "Mask"),
        ("veth7", zero, "00FFFFFF"),
        ("not-there", zero, zero),
        *((device[1], zero, "00000080") for device in socket.if_nameindex()[1:]),
        (one[1], zero, zero),
    ]
    table = "".join(row.format(name=name, to=to, mask=mask) for name, to, mask in rows)
    (tmp_path / "route").write_text(f"{table}\ncut off\n")
    assert default_devices(tmp_path) == {one[0]}
    (tmp_path / "route").unlink()
    row = f"{zero * 4} 00 {zero * 4} 00 {zero * 4} 00000100 00000001 00000000 00000001     "
    others = [device for device in socket.if_nameindex() if device[1] != "lo"]
    (tmp_path / "ipv6_route").write_text("".join(f"{row}{name}\n" for _, name in [(1, "lo"), *others]))
    assert default_devices(tmp_path) == {index for index, _ in others}


_MAY = os.geteuid() == 0 and shutil.which("ip") is not None


def ip(*arguments: str) -> None:
    """Change this machine's network."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


_NETWORK = "198.51.100"
"""Of the range for documentation (RFC 5737). Each cable has four addresses of it."""


class Cable(NamedTuple):
    """To the cloud's network namespace."""

    name: str
    """Of the node's end."""
    space: str
    """Name of the namespace."""
    node: str
    """Address for the node's end, which it has not yet."""
    cloud: str


@contextmanager
def cable() -> Iterator[Cable]:
    """A cable of the test's own: the name of its namespace is taken by nobody else on this machine."""
    for number in range(64):
        space, here, there = (f"{kind}{number}" for kind in ("edgehub", "ehn", "ehc"))
        try:
            ip("netns", "add", space)
        except subprocess.CalledProcessError as error:
            if b"File exists" not in error.stderr:
                pytest.skip(f"no network namespaces here: {error.stderr!r}")
        else:
            break
    else:
        pytest.fail("64 cables are left over: ip netns list")
    node, cloud = f"{_NETWORK}.{number * 4 + 1}", f"{_NETWORK}.{number * 4 + 2}"
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
        ip("-n", space, "address", "add", f"{cloud}/30", "dev", there)
        ip("-n", space, "link", "set", there, "up")
        yield Cable(here, space, node, cloud)
    finally:
        # The kernel ends a namespace later, and its devices with it; the next cable may have the same names.
        subprocess.run(["ip", "link", "del", here], check=False, capture_output=True)
        ip("netns", "del", space)


def listening_in(space: str, address: str) -> socket.socket:
    """A socket that listens in a network namespace, on a free port."""
    made: queue.Queue[socket.socket] = queue.Queue()

    def make() -> None:
        with Path(f"/run/netns/{space}").open("rb") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
        made.put(socket.create_server((address, 0)))

    thread = threading.Thread(target=make, name="setns")
    thread.start()
    thread.join(PATIENCE)
    return made.get(timeout=PATIENCE)


real = pytest.mark.skipif(not _MAY, reason="only root may change the network, with the program ip")


@real
def test_the_kernel_tells_of_a_device_and_its_address() -> None:
    """A real cable. Others may change the machine's network meanwhile."""
    with cable() as made, Listening() as listening:
        ip("address", "add", f"{made.node}/30", "dev", made.name)
        ip("link", "set", made.name, "up")
        listening.wait("another address has come")
        ip("address", "del", f"{made.node}/30", "dev", made.name)
        listening.wait("another address has gone")


@real
def test_a_node_whose_cable_is_pulled_knows_it_by_the_kernel_and_is_back_when_it_is_plugged_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deadlines and pings are a minute here, so that nothing else can have told. The cloud answers whoever asks it, for
    what others do to the machine's network may have the node ask, or dial again.
    """
    monkeypatch.setattr("edgehub.websocket.CHECK_DEADLINE", 0.5)
    with cable() as (name, space, node, address):
        ip("address", "add", f"{node}/30", "dev", name)
        ip("link", "set", name, "up")
        with LibraryCloud(listening=listening_in(space, address)) as cloud, stopping(Hive(Threads())) as hive:
            slow = settings(
                url=f"ws://{address}:{cloud.port}/p/edge-1/events",
                ping_interval=60.0,
                read_deadline=120.0,
                write_deadline=120.0,
                heartbeat=600.0,
                reconnect_base=60.0,
                reconnect_limit=60.0,
            )
            counters = edgehub.install(hive, slow, watch_network=Netlink)
            hive.start()
            wait_until(lambda: counters.confirmed > 0, "the cloud has answered", PATIENCE)
            ip("link", "set", name, "down")
            wait_until(lambda: counters.ends["dead peer"] + counters.ends["lost"] > 0, "its end is seen", PATIENCE)
            ip("link", "set", name, "up")
            wait_until(lambda: counters.connected, "the node is connected again", PATIENCE)
