"""Services by the proxy of this process, on loopback addresses, without root."""

import errno
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from ipaddress import ip_address, ip_network
from typing import Any
from unittest.mock import MagicMock

import pytest

from beehive.clock import RealClock
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.proxy import affinity
from modules.edge.edgemesh.proxy import plane as plane_module
from modules.edge.edgemesh.proxy import relay as relay_module
from modules.edge.edgemesh.proxy import udp as udp_module
from modules.edge.edgemesh.proxy.plane import ProxyPlane, listen_address
from modules.edge.edgemesh.proxy.relay import CONNECT_SECONDS, DESCRIPTORS, MOST_TRIES, Relay, reset
from modules.edge.edgemesh.proxy.udp import SILENT_SECONDS, UdpClients
from modules.edge.edgemesh.tables import Address, PortTable, target_to
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgemesh.objects import port_table as table
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


@pytest.fixture
def plane() -> Iterator[ProxyPlane]:
    clock = RealClock()
    made = ProxyPlane(clock, HostAddresses(["/nowhere/program"]), ["10.96.0.0/16"])
    made.prepare()
    yield made
    made.close()
    clock.close()


def apply(plane: ProxyPlane, *tables: PortTable) -> None:
    plane.apply({each.key: each for each in tables}, ())


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(PATIENCE)
        yield made


def test_each_side_of_a_connection_ends_by_itself(plane: ProxyPlane, server: socket.socket) -> None:
    """Case 23: a half-closed connection, with more bytes than any buffer holds, both ways."""
    given = table(server.getsockname())
    apply(plane, given)
    sent = bytes(range(256)) * 40_000
    with socket.create_connection(listen_address(given), PATIENCE) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(PATIENCE)

            def send(channel: socket.socket) -> None:
                channel.sendall(sent)
                channel.shutdown(socket.SHUT_WR)

            thread = threading.Thread(target=send, args=(client,))
            thread.start()
            assert everything(accepted) == sent
            thread.join(PATIENCE)
            thread = threading.Thread(target=send, args=(accepted,))
            thread.start()
            assert everything(client) == sent
            thread.join(PATIENCE)


def everything(channel: socket.socket) -> bytes:
    """All bytes until the end."""
    parts = []
    while part := channel.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def test_a_dead_endpoint_is_passed_over(plane: ProxyPlane, server: socket.socket) -> None:
    """Case 23; and where all are dead, the client sees a reset, as by a kernel where nothing listens."""
    dead = ("127.0.0.1", free_port())
    given = table(server.getsockname(), dead)
    apply(plane, given)
    for _ in range(6):
        with socket.create_connection(listen_address(given), PATIENCE), server.accept()[0]:
            pass
    apply(plane, given._replace(inside=target_to((dead,))))
    with (
        pytest.raises((ConnectionResetError, BrokenPipeError)),
        socket.create_connection(listen_address(given), PATIENCE) as client,
    ):
        client.recv(1)


def test_so_many_endpoints_are_tried_for_a_connection(server: socket.socket) -> None:
    """None of them answers in its time."""
    with socket.create_connection(server.getsockname(), PATIENCE):
        relay = Relay(server.accept()[0], [server.getsockname()] * (MOST_TRIES + 1), MagicMock(), lambda _: None)
        relay.begin(0.0)
        for number in range(1, MOST_TRIES + 1):
            relay.expire(number * CONNECT_SECONDS - 1e-3)  # its time is not over
            assert relay.is_open
            relay.expire(number * CONNECT_SECONDS)
        assert not relay.is_open


def test_a_silent_endpoint_is_passed_over_after_its_time(
    plane: ProxyPlane, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "CONNECT_SECONDS", 0.1)
    with socket.socket() as silent, ExitStack() as fillers:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for filler in [fillers.enter_context(socket.socket()) for _ in range(4)]:
            filler.setblocking(False)  # noqa: FBT003 - the socket's own signature
            filler.connect_ex(silent.getsockname())
        given = table(silent.getsockname(), server.getsockname())
        monkeypatch.setattr(plane._affinity, "order", lambda table, *_: list(table.inside.endpoints))
        given = given._replace(inside=target_to((silent.getsockname(), server.getsockname())))
        apply(plane, given)
        with socket.create_connection(listen_address(given), PATIENCE) as client:
            client.sendall(b"a")
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(PATIENCE)
                assert accepted.recv(1) == b"a"


def test_a_side_that_breaks_off_breaks_off_the_other(plane: ProxyPlane, server: socket.socket) -> None:
    """An end would say that the other side has got all there was."""
    given = table(server.getsockname())
    apply(plane, given)
    for breaks_client in (True, False):
        client = socket.create_connection(listen_address(given), PATIENCE)
        accepted, _ = server.accept()
        accepted.settimeout(PATIENCE)
        client.sendall(b"a")
        assert accepted.recv(1) == b"a"
        broken, other = (client, accepted) if breaks_client else (accepted, client)
        with other:
            reset(broken)
            with pytest.raises(ConnectionResetError):
                other.recv(1)


def test_small_pieces_are_sent_at_once_and_a_side_without_power_is_noticed(
    plane: ProxyPlane, server: socket.socket
) -> None:
    given = table(server.getsockname())
    apply(plane, given)
    with socket.create_connection(listen_address(given), PATIENCE), server.accept()[0]:
        (relay,) = plane._relays
        assert relay._server is not None
        for channel in (relay._client, relay._server):
            assert channel.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert channel.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.fixture
def echo() -> Iterator[Address]:
    """The address of a server that gives back the first byte of each connection."""
    with socket.create_server(("127.0.0.1", 0)) as made:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = made.accept()
                    with accepted, suppress(OSError):
                        accepted.sendall(accepted.recv(1))

        thread = threading.Thread(target=serve)
        thread.start()
        yield made.getsockname()
        made.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def answers(given: PortTable) -> bool:
    """Whether a connection reaches the endpoint, which gives back what it gets."""
    try:
        with socket.create_connection(listen_address(given), PATIENCE) as client:
            client.sendall(b"a")
            return client.recv(1) == b"a"
    except OSError:
        return False


def test_connections_take_no_more_descriptors_than_the_proxy_may_have(plane: ProxyPlane, echo: Address) -> None:
    given = table(echo)
    apply(plane, given)
    plane._most = 1 + 2 * DESCRIPTORS
    held = [socket.create_connection(listen_address(given), PATIENCE) for _ in range(2)]
    wait_until(lambda: len(plane._relays) == 2, "both are accepted")
    assert not answers(given), "a third one is refused"
    other = given._replace(service="db")
    apply(plane, given, other)
    assert len(plane._listeners) == 1, "nor is there one for a listening socket"
    for each in held:
        each.close()
    wait_until(lambda: not plane._relays, "they are over")
    assert answers(given)


@pytest.mark.parametrize("bound", ["MOST_OF_A_SERVICE", "MOST_CONNECTIONS"])
def test_no_client_keeps_others_out(
    plane: ProxyPlane, server: socket.socket, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """A pod that held 256 idle connections to a Service had it for itself."""
    monkeypatch.setattr(plane_module, bound, 4)
    given = table(server.getsockname())
    apply(plane, given)

    def connect(address: str) -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection(listen_address(given), PATIENCE, (address, 0))
        wait_until(lambda: not plane._beginning, "the proxy has decided")
        return client, server.accept()[0]

    def is_there(client: socket.socket) -> bool:
        client.settimeout(0)
        try:
            return client.recv(1) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    pairs = [connect(address) for address in ("127.0.0.2",) * 4 + ("127.0.0.3", "127.0.0.4")]
    try:
        assert [is_there(client) for client, _ in pairs] == [False, False, True, True, True, True]
    finally:
        for client, endpoint in pairs:
            client.close()
            endpoint.close()


def test_of_equals_the_last_to_come_is_refused(
    plane: ProxyPlane, echo: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client loses a connection to another that has as many."""
    monkeypatch.setattr(plane_module, "MOST_OF_A_SERVICE", 2)
    given = table(echo)
    apply(plane, given)
    held = [socket.create_connection(listen_address(given), PATIENCE, (f"127.0.0.{n}", 0)) for n in (2, 3)]
    wait_until(lambda: len(plane._relays) == 2, "both are accepted")
    assert not answers(given)
    for each in held:
        each.sendall(b"c")
        assert each.recv(1) == b"c"
        each.close()


@pytest.mark.modules_fail
def test_a_failure_of_one_connection_ends_no_other(
    plane: ProxyPlane, echo: Address, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One thread carries all Services of the node."""
    given = table(echo)
    apply(plane, given)
    with monkeypatch.context() as patched:
        patched.setattr(plane._affinity, "order", lambda *_: [])
        assert not answers(given)
    with monkeypatch.context() as patched:
        patched.setattr(Relay, "event", lambda *_: 1 // 0)
        assert not answers(given)
    told = "a connection through the proxy failed"
    wait_until(lambda: caplog.text.count(told) == 2, "both are logged, after their clients have noticed")
    assert answers(given)
    wait_until(lambda: not plane._relays and not plane._beginning, "nothing of them is kept")


def test_exhausted_descriptors_end_a_connection_and_not_the_proxy(
    plane: ProxyPlane, echo: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table(echo)
    apply(plane, given)
    pipe, failures = os.pipe2, [1, 0]

    def fails(flags: int) -> tuple[int, int]:
        if failures and failures.pop():
            raise OSError(errno.EMFILE, "too many open files")
        return pipe(flags)

    monkeypatch.setattr(os, "pipe2", fails)
    assert not answers(given)
    assert answers(given)


class Exhausted(socket.socket):
    """A listening socket whose process has no descriptor left at the first connection."""

    calls = 0

    def accept(self) -> tuple[socket.socket, Any]:
        Exhausted.calls += 1
        if Exhausted.calls == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


def test_a_connection_that_cannot_be_accepted_waits_and_the_proxy_sleeps(
    plane: ProxyPlane, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table(server.getsockname())
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", Exhausted)
        patched.setattr(Exhausted, "calls", 0)
        apply(plane, given)
    with socket.create_connection(listen_address(given), PATIENCE), server.accept()[0]:
        assert Exhausted.calls == 2


class OfItself(socket.socket):
    """A socket that happens to get the port that it connects to as its own."""

    def connect_ex(self, address: Any, /) -> int:
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.bind(address)
        return super().connect_ex(address)


def test_a_port_where_nothing_listens_is_not_the_proxy_itself(
    plane: ProxyPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table(("127.0.0.1", free_port()))
    apply(plane, given)
    monkeypatch.setattr(socket, "socket", OfItself)
    with (
        pytest.raises((ConnectionResetError, BrokenPipeError)),
        socket.create_connection(listen_address(given), PATIENCE) as client,
    ):
        client.sendall(b"a")
        client.recv(1)


def test_a_proxy_that_has_ended_begins_again(plane: ProxyPlane, server: socket.socket) -> None:
    """As after a failure of the module, which closes it."""
    given = table(server.getsockname())
    for _ in range(2):
        apply(plane, given)
        with socket.create_connection(listen_address(given), PATIENCE), server.accept()[0]:
            plane.close()
        plane.prepare()


def test_nothing_is_kept_of_connections_and_ports_that_are_over(
    plane: ProxyPlane, echo: Address, caplog: pytest.LogCaptureFixture
) -> None:
    """A number of a descriptor that is kept may be another's, who would get its events."""
    given, dead = table(echo, ("127.0.0.1", free_port())), table(("127.0.0.1", free_port()))
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind(("127.0.0.1", 0))
    datagrams = table(endpoint.getsockname(), protocol="udp")
    nowhere = table(("255.255.255.255", 1))
    refusing = [dead._replace(service="dead"), nowhere._replace(service="nowhere")]
    apply(plane, given, *refusing, datagrams)
    for _ in range(4):
        assert answers(given)
        assert not any(map(answers, refusing))
    with endpoint, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"a", listen_address(datagrams))
        wait_until(lambda: plane._udp_clients == 1, "it has a client")
    wait_until(lambda: not plane._relays, "they are over")
    assert len(plane._handlers) == 5
    assert not [record for record in caplog.records if record.exc_info]
    apply(plane)
    assert (plane._handlers, plane._udp_clients, plane._beginning) == ({}, 0, set())


def test_a_service_whose_address_changes_is_listened_for_there(plane: ProxyPlane, server: socket.socket) -> None:
    plane._has_route = True
    port = free_port()
    given = table(server.getsockname(), port=port)
    for address in ("127.0.0.5", "127.0.0.6"):
        apply(plane, given._replace(addresses=(address,)))
        with socket.create_connection((address, port), PATIENCE), server.accept()[0]:
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.5", port), PATIENCE)


def test_an_address_of_a_service_is_no_endpoint(plane: ProxyPlane, server: socket.socket) -> None:
    """The proxy would connect to itself, without end."""
    given = table(("10.96.3.4", 80), server.getsockname())
    apply(plane, given)
    assert plane._tables[given.key].inside.endpoints == (server.getsockname(),)
    apply(plane, table(("10.96.3.4", 80)))
    assert plane._listeners == {}


def test_clients_of_udp_are_bounded_over_all_services(plane: ProxyPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane_module, "MOST_UDP_CLIENTS", 2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        endpoint.settimeout(PATIENCE)
        web, db = (table(endpoint.getsockname(), protocol="udp")._replace(service=name) for name in ("web", "db"))
        apply(plane, web, db)
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        for number, client in enumerate(clients):
            client.sendto(bytes([number]), listen_address(web))
            assert endpoint.recv(9) == bytes([number])
        assert plane._udp_clients == 2
        clients[0].sendto(b"d", listen_address(db))
        clients[2].sendto(b"w", listen_address(web))
        assert endpoint.recv(9) == b"w", "a Service without clients gets none of another's"
        monkeypatch.setattr(udp_module, "SILENT_SECONDS", 0.0)
        wait_until(lambda: not plane._udp_clients, "silent ones are forgotten")
        for client in clients:
            client.close()


def test_a_port_of_udp_is_listened_on_while_an_endpoint_serves(plane: ProxyPlane) -> None:
    """Its clients may go on with one that is about to end."""
    given = table(("127.0.0.1", free_port()), protocol="udp")
    for serving, is_there in ((given.serving, True), (frozenset(), False)):
        apply(plane, given._replace(inside=target_to(()), serving=serving))
        assert bool(plane._listeners) == is_there


def test_no_client_of_udp_displaces_others_by_its_ports(plane: ProxyPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each port of an address is a client of its own."""
    monkeypatch.setattr(plane_module, "MOST_UDP_CLIENTS", 3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        endpoint.settimeout(PATIENCE)
        web = table(endpoint.getsockname(), protocol="udp")
        apply(plane, web)

        def ask(address: str) -> tuple[socket.socket, Address]:
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            client.bind((address, 0))
            client.settimeout(PATIENCE)
            client.sendto(b"asked", listen_address(web))
            return client, endpoint.recvfrom(9)[1]

        quiet, behind = ask("127.0.0.3")
        hostile = [ask("127.0.0.2")[0] for _ in range(6)]
        endpoint.sendto(b"answer", behind)
        assert quiet.recv(9) == b"answer"
        for each in (quiet, *hostile):
            each.close()


class Sockets:
    """The plane of clients of UDP, without its thread."""

    def __init__(self) -> None:
        self.watched: dict[socket.socket, Callable[[], None]] = {}

    def has_room_for_client(self) -> bool:
        """Always."""
        return True

    def watch_client(self, client: socket.socket, answer: Callable[[], None]) -> None:
        """Note it."""
        self.watched[client] = answer

    def forget_client(self, client: socket.socket) -> None:
        """Forget it."""
        del self.watched[client]


@pytest.fixture
def udp() -> Iterator[list[socket.socket]]:
    """The listening socket, a client's and two endpoints'."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(4)]
        for each in made:
            each.bind(("127.0.0.1", 0))
            each.settimeout(PATIENCE)
        made[0].settimeout(0)
        yield made


def test_a_client_of_udp_that_is_silent_is_forgotten_and_one_that_sends_is_not(udp: list[socket.socket]) -> None:
    listening, client, endpoint, _ = udp
    sockets: Any = Sockets()
    clients = UdpClients(listening, table(endpoint.getsockname(), protocol="udp"), sockets, choices())
    for now in (0.0, SILENT_SECONDS - 1):
        client.sendto(b"a", listening.getsockname())
        clients.forward(now)
        assert endpoint.recv(9) == b"a"
    clients.expire(SILENT_SECONDS)
    assert len(sockets.watched) == 1
    clients.expire(2 * SILENT_SECONDS - 1)
    assert not sockets.watched


def test_a_client_of_udp_keeps_an_endpoint_that_still_serves(udp: list[socket.socket]) -> None:
    listening, client, old, new = udp
    sockets: Any = Sockets()
    given = table(old.getsockname(), protocol="udp")
    clients = UdpClients(listening, given, sockets, choices())
    both = frozenset((old.getsockname(), new.getsockname()))
    moved = given._replace(inside=target_to((new.getsockname(),)), serving=both)
    for serving, expected in ((both, old), (frozenset((new.getsockname(),)), new)):
        client.sendto(b"a", listening.getsockname())
        clients.forward(0.0)
        clients.set_table(moved._replace(serving=serving))
        client.sendto(b"b", listening.getsockname())
        clients.forward(0.0)
        assert old.recv(9) == b"a"
        assert expected.recv(9) == b"b"
    clients.close()
    assert not sockets.watched


def test_after_a_refusal_a_client_of_udp_gets_another_endpoint(udp: list[socket.socket]) -> None:
    listening, client, endpoint, gone = udp
    sockets: Any = Sockets()
    nobody = gone.getsockname()
    gone.close()
    given = table(nobody, protocol="udp")
    clients = UdpClients(listening, given, sockets, choices())
    client.sendto(b"a", listening.getsockname())
    clients.forward(0.0)
    given = given._replace(inside=target_to((endpoint.getsockname(),)), serving=given.serving)
    clients.set_table(given)
    client.sendto(b"b", listening.getsockname())
    clients.forward(0.0)  # the kernel reports the refusal of the first one
    client.sendto(b"c", listening.getsockname())
    clients.forward(0.0)
    assert endpoint.recv(9) == b"c"
    clients.close()


def choices() -> affinity.ClientAffinity:
    return affinity.ClientAffinity(random.Random(1))  # noqa: S311 - endpoints are no secrets


def test_a_client_is_remembered_for_its_time_and_not_too_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "MOST_CLIENTS", 3)
    ends = [("192.0.2.1", number) for number in range(50)]
    known = choices()
    given = table(*ends)._replace(affinity=10)
    known.record(given, "c", ends[7], 100.0)
    assert known.order(given, "c", 109.0)[0] == ends[7]
    assert sorted(known.order(given, "c", 109.0)) == ends
    assert [known.order(given, "c", 110.0)[0] == ends[7] for _ in range(3)].count(True) < 3
    assert ends[7] not in known.order(given._replace(inside=target_to(tuple(ends[:7]))), "c", 101.0)
    for client in "decf":
        known.record(given, client, ends[7], 100.0)
    assert [known.order(given, "d", 100.0)[0] == ends[7] for _ in range(3)].count(True) < 3, "it came first"
    assert known.order(given, "c", 100.0)[0] == ends[7]


def test_of_services_with_one_loopback_address_the_oldest_is_listened_for(
    plane: ProxyPlane, server: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A tenant finds a name whose address is another namespace's Service's; neither a restart nor a time without
    endpoints gives it the connections.
    """
    monkeypatch.setattr(ProxyPlane, "reach", lambda _self, table: ("127.96.1.2", table.port))
    bank = table(server.getsockname())._replace(namespace="bank", created="2026-01-01T00:00:00Z")
    evil = bank._replace(namespace="a", created="2026-01-02T00:00:00Z")
    for several in ((bank, evil), (evil, bank)):
        apply(plane, *several)
        assert plane._listeners.keys() == {bank.key}
        apply(plane, *(each._replace(inside=target_to(())) if each is bank else each for each in several))
        assert not plane._listeners
    assert caplog.text.count(f"{evil.key}: an older one") == 1
    apply(plane, evil)
    assert plane._listeners.keys() == {evil.key}


def test_ports_of_root_are_moved_and_addresses_stay() -> None:
    low = table(port=80)
    address, port = listen_address(low)
    assert (ip_address(address) in ip_network("127.96.0.0/11"), port) == (True, 20_080)
    assert listen_address(low._replace(port=8080)) == (address, 8080)
    assert listen_address(low._replace(service="other"))[0] != address
