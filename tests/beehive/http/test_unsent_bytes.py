"""The memory for what clients have not taken: who loses it when there is too much."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from beehive.http.connections import OpenConnection
from beehive.http.unsent_bytes import HeldBytes, UnsentBytes
from beehive.simulation import Simulation

MOST = 1000


class Site:
    """A memory of 1,000 bytes, and connections that hold some of it."""

    def __init__(self) -> None:
        self.simulation = Simulation(0)
        self.memory = UnsentBytes(self.simulation.clock, MOST)
        self.stack = ExitStack()
        self.kept = list[bytes]()
        """So that no two pieces have one identity."""

    def connection(self, client: str) -> HeldBytes:
        near, far = socket.socketpair()
        for each in (near, far):
            self.stack.callback(each.close)
        return self.stack.enter_context(self.memory.of(OpenConnection("", near, 0.0), client))

    def holding(self, client: str, size: int) -> HeldBytes:
        self.simulation.run_for(1.0)
        held = self.connection(client)
        self.kept.append(bytes(size))
        held.hold(self.kept[-1])
        return held


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    with made.stack:
        yield made
    assert made.memory.used == 0
    assert not made.memory._holders
    assert not made.memory._held


def ended(*held: HeldBytes) -> list[bool]:
    return [each.connection.is_ended for each in held]


def test_the_client_with_the_most_loses_what_has_waited_longest(site: Site) -> None:
    other = site.holding("other", 300)
    flood = [site.holding("flood", 200) for _ in range(4)]
    assert ended(other, *flood) == [False, True, False, False, False]
    assert flood[0].connection.socket.recv(1) == b"", "its thread is woken"
    assert ended(*[site.holding("flood", 100)], *flood[1:]) == [False, False, False, False]
    late = site.holding("late", 200)
    assert ended(other, late, *flood) == [False, False, True, True, False, False]


def test_a_connection_that_takes_its_bytes_is_younger_than_one_that_does_not(site: Site) -> None:
    first, second = site.holding("a", 400), site.holding("a", 400)
    site.simulation.run_for(1.0)
    site.kept.append(bytes(400))
    first.hold(site.kept[-1])
    site.holding("b", 300)
    assert ended(first, second) == [False, True]


def test_bytes_that_were_taken_count_no_more(site: Site) -> None:
    for _ in range(5):
        site.holding("a", 900).hold(b"")
    assert site.memory.used == 0
    assert not any(each.connection.is_ended for each in site.memory._held)


def test_the_same_bytes_count_once_and_each_holder_has_its_part(site: Site) -> None:
    """One event of a large object goes to all who watch it."""
    event = bytes(600)
    watches = [site.connection(client) for client in ("a", "b", "c", "c", "c", "c")]
    for each in watches:
        each.hold(event)
    assert site.memory.used == 600
    flood = site.holding("flood", 350), site.holding("flood", 100)
    assert ended(*flood, *watches) == [True, False, *[False] * 6], "each of a, b and c holds 200"


def test_what_several_hold_is_free_when_the_last_has_gone(site: Site) -> None:
    event = bytes(900)
    watches = [site.connection("a") for _ in range(3)]
    for each in watches:
        each.hold(event)
    late = site.holding("b", 400)
    assert ended(*watches, late) == [True, True, True, False]


def test_those_that_have_ended_cost_no_others(site: Site) -> None:
    """Their threads hold the bytes for a moment longer."""
    flood = site.holding("flood", 900)
    assert ended(site.holding("a", 300), flood) == [False, True]
    assert site.memory.used == 1200
    assert ended(site.holding("a", 300), site.holding("a", 300)) == [False, False]


def test_those_that_have_ended_are_no_part_of_what_a_client_has(site: Site) -> None:
    """It is not the next one's turn because of them."""
    first, flood = site.holding("a", 500), site.holding("flood", 600)
    assert ended(first, flood) == [False, True]
    assert ended(site.holding("a", 150), first) == [False, False], "650 live bytes, and 600 that are on their way out"


def test_of_equal_bytes_the_oldest_holder_counts(site: Site) -> None:
    event, watches = bytes(500), [site.connection("a") for _ in range(2)]
    watches[0].hold(event)
    other = site.holding("a", 300)
    site.simulation.run_for(1.0)
    watches[1].hold(event)
    late = site.holding("a", 400)
    assert ended(*watches, other, late) == [True, True, False, False]


def test_a_body_grows(site: Site) -> None:
    body, answer = site.connection("a"), site.holding("b", 300)
    for _ in range(8):
        body.grow(100)
    assert ended(body, answer) == [True, False]


def test_one_connection_alone_is_within_the_bound_too(site: Site) -> None:
    assert ended(site.holding("a", MOST + 1)) == [True]


def test_the_log_says_once_a_minute_who_has_lost(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.holding("alice", 900)
    site.holding("alice", 900)
    site.holding("", 900)
    assert caplog.messages == [
        "more than 0 MiB of answers wait for their clients; ended is a connection of alice that has waited for 1 s"
    ]
    site.simulation.run_for(60.0)
    site.holding("alice", 900)
    site.holding("alice", 900)
    assert len(caplog.messages) == 2
