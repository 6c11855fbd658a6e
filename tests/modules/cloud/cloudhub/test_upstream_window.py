"""How many of a node's messages controllers have at a time, and in which order they get them."""

from collections.abc import Iterable
from random import Random
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from beehive import Message, Module
from beehive.names import Group, Operation
from beehive.testing import FakeContext
from modules.cloud.cloudhub.messages_without_room import MessagesWithoutRoom, Passing
from modules.cloud.cloudhub.upstream_window import _HELD, HANDLED_TIMEOUT, UpstreamWindow


def test_what_takes_too_long_is_waited_for_no_longer() -> None:
    """Not before, however late it is on the clock; then the next ones go on, by node."""
    upstream: UpstreamWindow[str] = UpstreamWindow(messages=1)
    assert list(upstream.offer("n1", "a", 1, 1000.0)) == ["a"]
    assert list(upstream.offer("n1", "b", 1, 1000.0)) == []
    assert list(upstream.offer("n2", "c", 1, 1001.0)) == ["c"]
    assert list(upstream.expire(1000.0 + HANDLED_TIMEOUT - 0.1)) == []
    assert list(upstream.expire(1000.0 + HANDLED_TIMEOUT)) == [("n1", "b")]
    assert list(upstream.handled("n1", 1, 1006.0)) == []
    list(upstream.expire(1006.0 + HANDLED_TIMEOUT))
    assert len(upstream) == 0, "nothing is kept of nodes that say nothing"


def test_what_waits_of_a_node_is_bounded() -> None:
    upstream: UpstreamWindow[int] = UpstreamWindow(messages=1)
    passed: list[int] = []
    for number in range(_HELD + 1):
        assert not upstream.is_full("n1")
        passed += upstream.offer("n1", number, 1, 0.0)
    assert upstream.is_full("n1")
    assert not upstream.is_full("n2")
    while len(upstream):
        passed += upstream.handled("n1", 1, 0.0)
    assert passed == list(range(_HELD + 1))


def test_bytes_are_bounded_too_and_a_larger_message_is_alone() -> None:
    """Whatever has been handled before."""
    upstream: UpstreamWindow[str] = UpstreamWindow(messages=10, limit=100)
    assert list(upstream.offer("n1", "large", 500, 0.0)) == ["large"]
    assert list(upstream.offer("n1", "a", 60, 0.0)) == []
    assert list(upstream.offer("n1", "b", 40, 0.0)) == []
    assert list(upstream.offer("n1", "c", 1, 0.0)) == []
    assert list(upstream.handled("n1", 1, 0.0)) == ["a", "b"]
    assert list(upstream.handled("n1", 1, 0.0)) == ["c"]


def test_the_oldest_message_counts_as_handled_first() -> None:
    """Also when its time is over; a later one of the node is still with the controllers."""
    upstream: UpstreamWindow[str] = UpstreamWindow(messages=10, limit=100)
    for item, size, now in (("a", 80, 0.0), ("b", 15, 0.0)):
        assert list(upstream.offer("n1", item, size, now)) == [item]
    assert list(upstream.offer("n1", "c", 50, 0.0)) == []
    assert list(upstream.handled("n1", 1, 3.0)) == ["c"]
    assert list(upstream.offer("n1", "d", 50, 3.0)) == []
    assert list(upstream.expire(HANDLED_TIMEOUT)) == [("n1", "d")]
    assert list(upstream.offer("n1", "e", 1, 6.0)) == []
    assert list(upstream.expire(3.0 + HANDLED_TIMEOUT - 0.1)) == []
    assert list(upstream.expire(3.0 + HANDLED_TIMEOUT)) == [("n1", "e")]


def test_an_answered_message_counts_as_handled_whatever_came_before_it() -> None:
    upstream: UpstreamWindow[str] = UpstreamWindow(messages=10, limit=100)
    for item, size in (("a", 10), ("b", 80)):
        assert list(upstream.offer("n1", item, size, 0.0, f"id of {item}")) == [item]
    assert list(upstream.offer("n1", "c", 90, 0.0, "id of c")) == []
    for node, message in (("n1", "id of c"), ("n1", "other"), ("n2", "id of b")):
        assert list(upstream.answered(node, message, 1.0)) == []
    assert list(upstream.answered("n1", "id of b", 1.0)) == ["c"]
    assert list(upstream.expire(HANDLED_TIMEOUT)) == []
    assert not upstream.is_idle("n1"), "c has its own time"
    assert list(upstream.answered("n1", "id of c", 6.0)) == []
    assert upstream.is_idle("n1")


GROUPS: tuple[str, ...] = (Group.EDGECONTROLLER, Group.DEVICECONTROLLER)


class Upstream:
    """The way of nodes' messages through cloudhub to controllers, whose inboxes are full at times."""

    def __init__(self, draw: Random) -> None:
        context = FakeContext()
        self.draw, self.simulation, self.link = draw, context.simulation, Mock()
        self.clock, self.after = context.clock, context.after
        self.depths = dict.fromkeys(GROUPS, 0)
        self.sent: dict[tuple[str, str], list[str]] = {}
        self.passed: dict[tuple[str, str], list[str]] = {}
        self.hive = SimpleNamespace(
            broadcast=self.broadcast,
            members=lambda group: [group],
            slot=lambda name: SimpleNamespace(inbox=SimpleNamespace(depth=lambda: self.depths[name])),
        )
        self.without_room = MessagesWithoutRoom(cast("Module", self))
        self.window: UpstreamWindow[Passing] = UpstreamWindow(messages=4, limit=100)

    def broadcast(self, group: str, message: Message) -> None:
        """Take a message, as cloudhub's module."""
        assert self.depths[group] == 0
        self.passed.setdefault((message.route.source, group), []).append(message.id)
        if self.draw.random() < 0.1:
            self.depths[group] = 100_000

    def offer(self) -> None:
        """A node sends a message."""
        node, group, size = self.draw.choice("ab"), self.draw.choice(GROUPS), self.draw.choice([1, 40, 300])
        resource = f"node/{node}/default/podstatus/p"
        message = Message.new(self.clock, source=node, resource=resource, operation=Operation.UPDATE)
        self.sent.setdefault((node, group), []).append(message.id)
        passing = Passing(group, message, self.link, size)
        self._pass_on(self.window.offer(node, passing, size, self.clock.monotonic()))

    def handle(self) -> None:
        """A controller reports handled messages."""
        now = self.clock.monotonic()
        self._pass_on(self.window.handled(self.draw.choice("ab"), self.draw.randrange(1, 4), now))

    def expire(self) -> None:
        """The time of messages is over."""
        now = self.clock.monotonic()
        self._pass_on(each for _, each in self.window.expire(now))
        for state in self.window._nodes.values():
            assert all(now - each.at < HANDLED_TIMEOUT for each in state.passed)

    def make_room(self) -> None:
        """An inbox is empty again."""
        self.depths[self.draw.choice(GROUPS)] = 0
        if self.draw.random() < 0.5:
            self.without_room.resume()

    def _pass_on(self, found: Iterable[Passing]) -> None:
        for passing in found:
            self.without_room.offer(passing)


@pytest.mark.parametrize("seed", range(25))
def test_messages_of_nodes_reach_the_controllers_in_their_order_whatever_waits(seed: int) -> None:
    """For the window of a node, or for room in an inbox."""
    draw = Random(seed)  # noqa: S311 - reproducible on purpose
    way = Upstream(draw)
    for _ in range(150):
        draw.choice([way.offer, way.offer, way.offer, way.handle, way.expire, way.make_room])()
        way.simulation.run_for(draw.choice([0.0, 0.0, 0.01, 0.05, 0.2, 3.0]))
        for key, ids in way.passed.items():
            assert ids == way.sent[key][: len(ids)]
    for _ in range(100):
        way.depths = dict.fromkeys(GROUPS, 0)
        way.simulation.run_for(HANDLED_TIMEOUT)
        way.expire()
    way.depths = dict.fromkeys(GROUPS, 0)
    way.simulation.run_for(1.0)
    assert way.passed == way.sent
    assert way.link.handled.call_count == sum(map(len, way.sent.values()))
    assert (len(way.window), way.without_room._waiting) == (0, {})
