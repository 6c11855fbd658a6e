"""Which of a server's connections makes room for a new one, and how its streams are shared."""

import socket
from collections.abc import Iterator

import pytest

from beehive.http.connections import (
    Client,
    OpenConnection,
    OpenConnections,
    Phase,
    StreamShares,
    address_of,
    network_of,
)
from beehive.simulation import Simulation

MOST, OF_ADDRESS, ALSO = 4, 3, 2


class Site:
    """A server's connections, which a test opens."""

    def __init__(self) -> None:
        self._simulation = Simulation()
        self.open = OpenConnections("here", self._simulation.clock, MOST, OF_ADDRESS, ALSO)
        self.sockets: list[socket.socket] = []

    def wait(self, seconds: float) -> None:
        self._simulation.run_for(seconds)

    def accept(self, address: str, phase: Phase = Phase.UNFINISHED) -> OpenConnection | None:
        here, there = socket.socketpair()
        self.sockets += [here, there]
        self.wait(0.01)
        connection = self.open.accept(address, here)
        if connection is not None and phase is not Phase.UNFINISHED:
            self.open.enter(connection, phase)
        return connection


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    for each in made.sockets:
        each.close()


U, A, W = Phase.UNFINISHED, Phase.ANSWERED, Phase.IDLE


@pytest.mark.parametrize(
    ("present", "new", "ended"),
    [
        ([("a", U), ("a", U), ("a", U)], "a", 0),
        ([("a", U), ("a", U), ("b", U)], "a", None),
        ([("b", U), ("a", U), ("a", U), ("b", A)], "c", 1),
        ([("b", U), ("a", A), ("a", A), ("c", A)], "d", 0),
        ([("a", U), ("a", W), ("a", U)], "a", 1),
        ([("a", A), ("a", U), ("a", A)], "a", 1),
    ],
    ids=["of its address", "there is room", "of the address with most", "who is answered stays", "who waits", "only"],
)
def test_who_makes_room(site: Site, present: list[tuple[str, Phase]], new: str, ended: int | None) -> None:
    before = [site.accept(*each) for each in present]
    assert site.accept(new) is not None
    assert [number for number, each in enumerate(before) if each is None or each.is_ended] == (
        [] if ended is None else [ended]
    )


def test_an_address_with_too_many_makes_room_itself(site: Site) -> None:
    """However long another one has sent nothing."""
    other = site.accept("b")
    own = [site.accept("a", phase) for phase in (A, A, U)]
    site.wait(10.0)
    assert site.accept("a") is not None
    assert [each is not None and each.is_ended for each in (other, *own)] == [False, False, False, True]


def test_who_has_waited_longest_for_another_request_goes_first(site: Site) -> None:
    """And not who has come first."""
    older, newer = site.accept("a", Phase.ANSWERED), site.accept("b", Phase.ANSWERED)
    assert older is not None
    assert newer is not None
    for each in (newer, older):
        site.wait(1.0)
        site.open.enter(each, Phase.IDLE)
    for name in "cd":
        site.accept(name, Phase.ANSWERED)
    assert site.accept("e") is not None
    assert [older.is_ended, newer.is_ended] == [False, True]


def test_who_has_made_room_does_not_do_so_again(site: Site) -> None:
    """Its thread has not ended yet."""
    first, *_ = present = [site.accept(name) for name in "abcd"]
    for name in "ef":
        assert site.accept(name) is not None
    assert first is not None
    assert sum(each is not None and each.is_ended for each in present) == 2


def test_who_is_slow_goes_before_who_waits_for_another_request(site: Site) -> None:
    idle, slow = site.accept("a", W), site.accept("a")
    site.wait(2)
    fresh = site.accept("a")
    site.accept("a")
    assert [each is not None and each.is_ended for each in (idle, slow, fresh)] == [False, True, False]


def test_a_new_connection_is_refused_while_all_others_are_answered(site: Site) -> None:
    for address in "aabb":
        assert site.accept(address, A)
    assert site.accept("c") is None


def test_streams_are_beside_the_connections(site: Site) -> None:
    for _ in range(ALSO):
        assert site.accept("a", Phase.STREAM)
    present = [site.accept("a", A) for _ in range(OF_ADDRESS)]
    assert all(present)
    assert site.accept("a") is None


def test_threads_that_have_not_ended_yet_are_bounded(site: Site) -> None:
    accepted = [site.accept(str(number)) for number in range(3 * MOST + ALSO)]
    assert accepted[2 * MOST + ALSO :] == [None] * MOST
    for each in accepted:
        if each is not None:
            site.open.remove(each)
    assert len(site.open) == 0


def test_a_connection_that_was_ended_before_its_tls_began_is_ended_then(site: Site) -> None:
    """TLS wraps the socket in another one, which must end too."""
    connection = site.accept("a")
    assert connection is not None
    connection.end()
    here, there = socket.socketpair()
    site.sockets += [here, there]
    site.open.replace_socket(connection, here)
    there.settimeout(60)
    assert there.recv(1) == b""
    assert not site.open.enter(connection, A)


def test_one_is_ended_when_there_are_no_more_descriptors(site: Site) -> None:
    assert not site.open.end_one()
    connection = site.accept("a")
    assert site.open.end_one()
    assert connection is not None
    assert connection.is_ended


def test_an_overdue_connection_is_ended(site: Site) -> None:
    old = site.accept("a")
    site.wait(5)
    new = site.accept("a")
    site.open.end_overdue(5.0)
    assert [each is not None and each.is_ended for each in (old, new)] == [True, False]


def test_one_client_cannot_have_all_streams() -> None:
    shares, a, b, c = StreamShares(32), Client("a"), Client("b"), Client("c")
    assert [shares.acquire(a) for _ in range(25)] == [True] * 24 + [False]
    assert [shares.acquire(b) for _ in range(3)] == [True, True, False]
    shares.release(a)
    assert [shares.acquire(a), shares.acquire(c)] == [False, True]


def test_many_clients_cannot_have_what_is_reserved_for_administrators() -> None:
    """20 service accounts had all of 768 streams: nobody saw a log any more."""
    shares, administrator = StreamShares(32), Client("admin", is_privileged=True)
    assert sum(shares.acquire(Client(f"tenant {number % 20}")) for number in range(100)) == 28
    assert [shares.acquire(administrator) for _ in range(3)] == [True, True, False], "it is one client, too"
    assert [shares.acquire(Client("", is_privileged=True)) for _ in range(3)] == [True, True, False]
    assert not shares.acquire(Client("node", is_privileged=True))


def test_of_a_client_whose_streams_have_ended_nothing_stays() -> None:
    shares = StreamShares(2)
    assert shares.acquire(Client("a"))
    shares.release(Client("a"))
    assert not shares._of_client


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
    ],
)
def test_a_host_has_a_whole_network_of_ipv6(host: str, network: str) -> None:
    assert network_of(host) == network


def test_clients_of_a_unix_socket_have_no_address() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert address_of(one) == ""
