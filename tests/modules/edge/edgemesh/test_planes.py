"""The contract of data planes: the same cases with the kernel's rules, and with the proxy as root and as anybody."""

import select
import socket
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from beehive.clock import RealClock
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.plane import DataPlane
from modules.edge.edgemesh.proxy.plane import ProxyPlane, listen_address
from modules.edge.edgemesh.tables import Address, MeshTarget, PortTable, target_to
from tests.modules.edge.edgemesh.machine import Machine, Pod, needs_nft, own_machine
from tests.modules.edge.edgemesh.objects import port_table
from tests.modules.edge.edgemesh.test_proxy import everything
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

REFUSED: Final = (ConnectionRefusedError, ConnectionResetError, PermissionError)
"""`PermissionError` is what a sender on the same machine gets for a packet that the kernel's rules refuse."""


class Server(NamedTuple):
    """An endpoint with a listener."""

    channel: socket.socket
    end: Address


class Bed(ABC):
    """A machine with a data plane and endpoints.

    Args:
        stack: ends all.
    """

    keeps_connections = False
    """Whether connections live on when the process ends."""
    drops = False
    """Whether it drops connections to a Service whose endpoints are elsewhere (the traffic policy Local)."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.plane = self.new_plane()

    @abstractmethod
    def new_plane(self) -> DataPlane:
        """A data plane that is ready, of a process that starts."""

    @abstractmethod
    def server(self, kind: int = socket.SOCK_STREAM, port: int = 0) -> Server:
        """A new endpoint."""

    @abstractmethod
    def table(self, *servers: Server, **changes: Any) -> PortTable:
        """A port of the Service `web`."""

    @abstractmethod
    def address(self, table: PortTable) -> Address:
        """Where clients reach a port."""

    @abstractmethod
    def do(self, function: Callable[[], socket.socket]) -> socket.socket:
        """Make a client's socket."""

    def apply(self, *tables: PortTable) -> None:
        """Apply tables."""
        self.plane.apply({each.key: each for each in tables}, ())

    def connect(self, table: PortTable) -> socket.socket:
        """A client's connection."""
        return self.do(lambda: socket.create_connection(self.address(table), PATIENCE))

    def client(self) -> socket.socket:
        """A client's UDP socket."""
        made = self.do(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.settimeout(PATIENCE)
        return self._stack.enter_context(made)

    def keep(self, server: socket.socket) -> socket.socket:
        """Have a server end with the test."""
        server.settimeout(PATIENCE)
        return self._stack.enter_context(server)


class OwnNetwork(Bed):
    """A machine with a network of its own, where endpoints are pods and clients are on the host."""

    def __init__(self, stack: ExitStack, machine: Machine) -> None:
        self.machine = machine
        self._pods: list[Pod] = []
        super().__init__(stack)

    def server(self, kind: int = socket.SOCK_STREAM, port: int = 0) -> Server:
        """A new pod; with a port, another server in the last one."""
        if not port:
            self._pods.append(self.machine.add_pod())
        pod = self._pods[-1]
        return Server(pod.listen(port or 8080, kind), (pod.address, port or 8080))

    def table(self, *servers: Server, **changes: Any) -> PortTable:
        """The port 80."""
        return port_table(*(each.end for each in servers), port=80)._replace(**changes)

    def address(self, table: PortTable) -> Address:
        """The ClusterIP."""
        return table.addresses[0], table.port

    def do(self, function: Callable[[], socket.socket]) -> socket.socket:
        """On the host."""
        return self.machine.do(function)

    def apply(self, *tables: PortTable) -> None:
        """With the addresses of the pods."""
        self.plane.apply({each.key: each for each in tables}, [each.address for each in self._pods])


class Kernel(OwnNetwork):
    """nftables."""

    keeps_connections = drops = True

    def new_plane(self) -> DataPlane:
        """The kernel keeps what the former one has made."""
        plane = self.machine.plane()
        plane.prepare()
        return plane


class RootProxy(OwnNetwork):
    """The proxy, at the ClusterIPs."""

    def new_plane(self) -> DataPlane:
        """Its thread is in the machine's network."""
        clock = self._stack.enter_context(closing(RealClock()))
        plane = ProxyPlane(clock, HostAddresses(self.machine.prefix), ["10.96.0.0/16"])
        self._stack.callback(plane.close)
        self.machine.do(plane.prepare)
        return plane


class AnybodysProxy(Bed):
    """The proxy at loopback addresses, without root."""

    def new_plane(self) -> DataPlane:
        """It cannot change routes."""
        clock = self._stack.enter_context(closing(RealClock()))
        plane = ProxyPlane(clock, HostAddresses(["/nowhere/program"]), ["10.96.0.0/16"])
        self._stack.callback(plane.close)
        plane.prepare()
        return plane

    def server(self, kind: int = socket.SOCK_STREAM, port: int = 0) -> Server:
        """A server of this machine."""
        made = self.keep(socket.socket(socket.AF_INET, kind))
        made.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            made.listen(256)
        return Server(made, made.getsockname())

    def table(self, *servers: Server, **changes: Any) -> PortTable:
        """A port that is free."""
        return port_table(*(each.end for each in servers), port=free_port())._replace(**changes)

    def address(self, table: PortTable) -> Address:
        """The Service's loopback address."""
        return listen_address(table)

    def do(self, function: Callable[[], socket.socket]) -> socket.socket:
        """On this machine."""
        return function()


@contextmanager
def a_bed(kind: type[Bed]) -> Iterator[Bed]:
    """A machine with a data plane."""
    with ExitStack() as stack:
        if issubclass(kind, OwnNetwork):
            yield kind(stack, stack.enter_context(own_machine()))
        else:
            yield kind(stack)


ROOTS: Final = (
    pytest.param(Kernel, id="nft", marks=needs_nft),
    pytest.param(RootProxy, id="proxy-root", marks=needs_nft),
)


@pytest.fixture(params=[*ROOTS, pytest.param(AnybodysProxy, id="proxy")])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    with a_bed(request.param) as made:
        yield made


def reached(bed: Bed, table: PortTable, servers: list[Server], number: int) -> Counter[int]:
    """The connections that each server gets, one after another."""
    found: Counter[int] = Counter()
    for _ in range(number):
        with bed.connect(table):
            ready, _, _ = select.select([each.channel for each in servers], [], [], PATIENCE)
            ready[0].accept()[0].close()
            found[next(place for place, each in enumerate(servers) if each.channel is ready[0])] += 1
    return found


def is_refused(bed: Bed, table: PortTable) -> bool:
    """Whether a connection is refused, and not only ended."""
    try:
        with bed.connect(table) as client:
            client.recv(1)
    except REFUSED:
        return True
    return False


def test_connections_are_shared_among_the_endpoints(bed: Bed) -> None:
    """Case 1."""
    servers = [bed.server(), bed.server()]
    given = bed.table(*servers)
    bed.apply(given)
    shares = reached(bed, given, servers, 40)
    assert all(4 <= shares[each] <= 36 for each in (0, 1))  # 5σ


def test_bytes_go_both_ways_and_each_side_ends_by_itself(bed: Bed) -> None:
    """Case 23: more bytes than any buffer holds."""
    server = bed.server()
    given = bed.table(server)
    bed.apply(given)
    sent = bytes(range(256)) * 40_000

    def send(channel: socket.socket) -> None:
        channel.sendall(sent)
        channel.shutdown(socket.SHUT_WR)

    with bed.connect(given) as client, server.channel.accept()[0] as accepted:
        accepted.settimeout(PATIENCE)
        for one, other in ((client, accepted), (accepted, client)):
            thread = threading.Thread(target=send, args=(one,))
            thread.start()
            assert everything(other) == sent
            thread.join(PATIENCE)


def test_without_an_endpoint_and_without_the_service_connections_are_refused(bed: Bed) -> None:
    """Case 6."""
    server = bed.server()
    given = bed.table(server)
    for tables in ((given._replace(inside=MeshTarget(), serving=frozenset()),), ()):
        bed.apply(given)
        assert reached(bed, given, [server], 1) == {0: 1}
        bed.apply(*tables)
        if tables or not isinstance(bed, Kernel):  # without a Service its address is anybody's
            assert is_refused(bed, given)


def test_without_an_endpoint_datagrams_are_refused(bed: Bed) -> None:
    """Case 6."""
    given = bed.table(protocol="udp")
    bed.apply(given)
    client = bed.client()
    client.connect(bed.address(given))
    with pytest.raises(REFUSED):
        client.send(b"x")
        client.recv(1)


def test_endpoints_of_other_nodes_only_are_not_used_with_the_policy_local(bed: Bed) -> None:
    """Case 7: the kernel's rules drop what others may take; a proxy has nothing that listens."""
    given = bed.table(inside=target_to((), drops=True))
    bed.apply(given)
    if bed.drops:
        with pytest.raises(TimeoutError):
            bed.do(lambda: socket.create_connection(bed.address(given), 0.3))
    else:
        assert is_refused(bed, given)


def test_a_connection_lives_through_changes_and_new_ones_go_where_they_say(bed: Bed) -> None:
    """Cases 13, 16: also when its endpoint is out of use or gone."""
    servers = [bed.server(), bed.server()]
    given = bed.table(servers[0])
    bed.apply(given)
    with bed.connect(given) as client, servers[0].channel.accept()[0] as accepted:
        accepted.settimeout(PATIENCE)
        for number in range(10):
            ends = (servers[number % 2].end,) if number % 3 else ()
            bed.apply(given._replace(inside=target_to(ends)))
            client.sendall(b"a")
            assert accepted.recv(1) == b"a"
            accepted.sendall(b"b")
            assert client.recv(1) == b"b"
        bed.apply(given._replace(inside=target_to((servers[1].end,))))
        assert reached(bed, given, servers, 5) == {1: 5}


def test_a_client_keeps_its_endpoint_while_it_is_there(bed: Bed) -> None:
    """Case 5."""
    servers = [bed.server() for _ in range(3)]
    given = bed.table(*servers, affinity=3600)
    bed.apply(given)
    shares = reached(bed, given, servers, 10)
    assert len(shares) == 1
    rest = tuple(each.end for place, each in enumerate(servers) if place not in shares)
    bed.apply(given._replace(inside=target_to(rest)))
    moved = reached(bed, given, servers, 10)
    assert len(moved) == 1
    assert moved.keys() != shares.keys()


def test_one_number_is_a_port_of_tcp_and_one_of_udp(bed: Bed) -> None:
    """Case 2: each with its own endpoint."""
    server, datagrams = bed.server(), bed.server(socket.SOCK_DGRAM)
    given = bed.table(server)
    other = given._replace(protocol="udp", inside=target_to((datagrams.end,)), serving=frozenset({datagrams.end}))
    bed.apply(given, other)
    assert reached(bed, given, [server], 2) == {0: 2}
    bed.client().sendto(b"x", bed.address(other))
    assert datagrams.channel.recv(9) == b"x"


def test_an_address_that_moves_to_another_service_is_only_its(bed: Bed) -> None:
    """Case 22: with the kernel's rules and as root; without root each Service has an address of its own."""
    servers = [bed.server(), bed.server()]
    given = bed.table(servers[0])
    other = given._replace(service="db", inside=target_to((servers[1].end,)))
    bed.apply(given)
    assert reached(bed, given, servers, 3) == {0: 3}
    bed.apply(other)
    assert reached(bed, other, servers, 10) == {1: 10}
    bed.apply(given)
    assert reached(bed, given, servers, 10) == {0: 10}


def test_datagrams_go_to_an_endpoint_that_serves(bed: Bed) -> None:
    """Case 18: one socket goes on sending, over no endpoint at all, and reaches the new one."""
    servers = [bed.server(socket.SOCK_DGRAM) for _ in range(2)]
    given = bed.table(protocol="udp")
    client, big = bed.client(), b"x" * 60_000
    for server in (*servers, servers[0]):
        bed.apply(given._replace(inside=target_to((server.end,)), serving=frozenset({server.end})))
        client.sendto(big, bed.address(given))
        data, source = server.channel.recvfrom(65535)
        assert data == big
        server.channel.sendto(b"back", source)
        assert client.recvfrom(99) == (b"back", bed.address(given))
        bed.apply(given)


def test_a_process_that_starts_again_serves_on(bed: Bed) -> None:
    """Case 17: with the kernel's rules connections and the endpoints of clients last over it."""
    servers = [bed.server() for _ in range(2)]
    given = bed.table(*servers, affinity=3600)
    bed.apply(given)
    with bed.connect(given) as client:
        ready, _, _ = select.select([each.channel for each in servers], [], [], PATIENCE)
        with ready[0].accept()[0] as accepted:
            accepted.settimeout(PATIENCE)
            bed.plane.close()
            if bed.keeps_connections:
                client.sendall(b"between")
                assert accepted.recv(99) == b"between"
            else:
                assert client.recv(1) == accepted.recv(1) == b""
            bed.plane = bed.new_plane()
            bed.apply(given)
            if bed.keeps_connections:
                client.sendall(b"after")
                assert accepted.recv(99) == b"after"
                mine = next(place for place, each in enumerate(servers) if each.channel is ready[0])
                assert reached(bed, given, servers, 5) == {mine: 5}
    assert reached(bed, given, servers, 5).total() == 5


@pytest.mark.parametrize("bed", ROOTS, indirect=True)
def test_pods_reach_services_and_a_pod_itself_too(bed: OwnNetwork) -> None:
    """Cases 1, 4, 19: on a machine without a default route."""
    machine = bed.machine
    client, end = machine.add_pod(), bed.server()
    given = bed.table(end)
    bed.apply(given)
    for do in (client.do, machine.pods[-1].do, machine.do):
        with do(partial(socket.create_connection, bed.address(given), PATIENCE)):
            end.channel.accept()[0].close()
