"""What waits for the cloud: classes, order, bounds, and what a lost link gives back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beehive import Message
from edgehub.outgoing import WINDOW_BYTES, WINDOW_FRAMES, Class, Entry, Outgoing, Verdict, classify
from tests.edgehub.messages import message


def entry(sent: Message, size: int = 100) -> Entry:
    """An entry as the module makes it, with a frame of that size."""
    return Entry(sent, b"x" * size, classify(sent))


def drain(outgoing: Outgoing) -> list[str]:
    """Ids in the order in which they leave, all confirmed at once."""
    ids = []
    while outgoing.peek() is not None:
        ids.append(outgoing.take().message.id)
        outgoing.confirmed(1)
    return ids


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (message("default/podpatch/p", "patch", sync=True), Class.REQUEST),
        (message("default/podpatch/p", "patch"), Class.STATE),
        (message("null/nodepatch/n", "patch"), Class.STATE),
        (message("default/podstatus/p", "update"), Class.STATE),
        (message("default/podstatus", "update"), Class.STATE),
        (message("default/nodestatus/n", "update"), Class.STATE),
        (message("kube-node-lease/lease/n", "update"), Class.STATE),
        (message("default/event/p.1", "update"), Class.STATE),
        (message("default/event/p.1", "insert"), Class.EVENT),
        (message("kube-node-lease/lease/n", "insert"), Class.EVENT),
        (message("kube-node-lease/lease/n", "query"), Class.EVENT),
        (message("default/pod/p", "response", parent_msg_id="p"), Class.ANSWER),
        (message("default/podpatch/p", "error", parent_msg_id="p"), Class.ANSWER),
        (message("default/pod/p", "response"), Class.EVENT),
        (message("default/event/e", "insert"), Class.EVENT),
        (message("default/pod/p", "delete"), Class.EVENT),
        (message("$hw/events/upload", "upload", group="user"), Class.EVENT),
    ],
)
def test_a_message_is_classified_by_who_waits_and_what_it_is_about(sent: Message, kind: Class) -> None:
    """One class each."""
    assert classify(sent) is kind


def test_events_leave_in_order_and_answers_before_them() -> None:
    """An acknowledgement does not wait behind statuses."""
    outgoing = Outgoing(10, 10_000)
    first, second = message("default/event/a", "insert"), message("default/event/b", "insert")
    answer = message("default/pod/p", "response", parent_msg_id="p")
    for sent in (first, second, answer):
        assert outgoing.offer(entry(sent)) is Verdict.QUEUED
    assert drain(outgoing) == [answer.id, first.id, second.id]


def test_a_newer_state_takes_the_place_of_the_older() -> None:
    """In its place in the order, and only for the same resource and operation."""
    outgoing = Outgoing(10, 10_000)
    old, other, event, new = (
        message("default/podstatus/a", "update"),
        message("default/podstatus/b", "update"),
        message("default/event/e", "insert"),
        message("default/podstatus/a", "update"),
    )
    for sent in (old, event, other):
        assert outgoing.offer(entry(sent)) is Verdict.QUEUED
    assert outgoing.offer(entry(new)) is Verdict.SUPERSEDED_OLDER
    assert drain(outgoing) == [new.id, event.id, other.id]


def test_the_number_of_waiting_messages_is_bounded() -> None:
    """The newest finds no room, but a newer state of a waiting object does."""
    outgoing = Outgoing(2, 10_000)
    assert outgoing.offer(entry(message("default/podstatus/a"))) is Verdict.QUEUED
    assert outgoing.offer(entry(message("default/event/e", "insert"))) is Verdict.QUEUED
    assert outgoing.offer(entry(message("default/event/f", "insert"))) is Verdict.NO_ROOM
    assert outgoing.offer(entry(message("default/podstatus/a"))) is Verdict.SUPERSEDED_OLDER
    assert len(outgoing) == 2


def test_the_bytes_that_wait_are_bounded_but_one_large_message_may_wait_alone() -> None:
    """A bound smaller than the largest message must not refuse it for ever."""
    outgoing = Outgoing(10, 1000)
    assert outgoing.offer(entry(message("default/event/e", "insert"), 5000)) is Verdict.QUEUED
    assert outgoing.offer(entry(message("default/event/f", "insert"), 1)) is Verdict.NO_ROOM
    drain(outgoing)
    assert outgoing.offer(entry(message("default/event/g", "insert"), 600)) is Verdict.QUEUED
    assert outgoing.offer(entry(message("default/event/h", "insert"), 401)) is Verdict.NO_ROOM
    assert outgoing.offer(entry(message("default/event/i", "insert"), 400)) is Verdict.QUEUED


def test_no_more_than_a_window_is_on_its_way() -> None:
    """A peer that confirms nothing gets 256 frames and no more."""
    outgoing = Outgoing(1000, 10_000_000)
    for _ in range(300):
        outgoing.offer(entry(message("default/event/e", "insert")))
    left = 0
    while outgoing.peek() is not None:
        outgoing.take()
        left += 1
    assert left == WINDOW_FRAMES
    outgoing.confirmed(1)
    assert outgoing.peek() is not None


def test_a_message_larger_than_the_window_leaves_alone() -> None:
    """It waits until nothing else is on its way."""
    outgoing = Outgoing(10, 100_000_000)
    small, large = message("default/event/e", "insert"), message("default/event/f", "insert")
    outgoing.offer(entry(small))
    outgoing.offer(entry(large, WINDOW_BYTES + 1))
    assert outgoing.take().message.id == small.id
    assert outgoing.peek() is None
    outgoing.confirmed(1)
    assert outgoing.take().message.id == large.id


def test_a_lost_link_gives_back_what_was_not_confirmed_before_all_else() -> None:
    """In the old order, requests apart; keepalives are forgotten."""
    outgoing = Outgoing(10, 10_000)
    confirmed, sent, waiting = (message("default/event/e", "insert") for _ in range(3))
    request, waiting_request = (message("default/configmap/c", "query", sync=True) for _ in range(2))
    keepalive = Entry(message("node", "keepalive"), b"ping", Class.KEEPALIVE)
    for one in (confirmed, sent, request, waiting, waiting_request):
        outgoing.offer(entry(one))
    for _ in range(3):
        outgoing.take()
    outgoing.on_its_way(keepalive)
    outgoing.confirmed(1)
    assert [one.message.id for one in outgoing.lost()] == [request.id, waiting_request.id]
    assert drain(outgoing) == [sent.id, waiting.id]
    assert outgoing.lost() == []


def test_a_state_that_comes_back_gives_way_to_a_newer_one() -> None:
    """It was on its way when the newer one came to wait; the cloud gets the newer one, in the older one's place."""
    outgoing = Outgoing(10, 10_000)
    old, event, new = (
        message("default/podstatus/a", "update"),
        message("default/event/e", "insert"),
        message("default/podstatus/a", "update"),
    )
    outgoing.offer(entry(old))
    outgoing.take()
    outgoing.offer(entry(event))
    outgoing.offer(entry(new))
    outgoing.lost()
    assert drain(outgoing) == [new.id, event.id]


class OutgoingMachine(RuleBasedStateMachine):
    """Any interleaving: no event is lost or reordered, no request survives a lost link, the bounds hold."""

    def __init__(self) -> None:
        super().__init__()
        self.outgoing = Outgoing(8, 2000)
        self.expected: list[str] = []
        """Ids of events accepted and not confirmed, in order."""
        self.on_way: list[Entry] = []

    @rule(
        size=st.integers(1, 900),
        kind=st.sampled_from(["event", "state", "request", "answer"]),
        name=st.integers(0, 2),
    )
    def offer(self, size: int, kind: str, name: int) -> None:
        made = {
            "event": lambda: message(f"default/event/{name}", "insert"),
            "state": lambda: message(f"default/podstatus/{name}", "update"),
            "request": lambda: message(f"default/configmap/{name}", "query", sync=True),
            "answer": lambda: message(f"default/pod/{name}", "response", parent_msg_id="p"),
        }[kind]()
        if self.outgoing.offer(entry(made, size)) is not Verdict.NO_ROOM and kind == "event":
            self.expected.append(made.id)

    @rule()
    def leave(self) -> None:
        if self.outgoing.peek() is not None:
            self.on_way.append(self.outgoing.take())

    @precondition(lambda self: self.on_way)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.on_way)))
        self.outgoing.confirmed(number)
        arrived, self.on_way = self.on_way[:number], self.on_way[number:]
        for one in arrived:
            if one.kind is Class.EVENT:
                assert self.expected.pop(0) == one.message.id

    @rule()
    def lose(self) -> None:
        assert all(one.kind is Class.REQUEST for one in self.outgoing.lost())
        self.on_way.clear()
        assert not any(one.kind is Class.REQUEST for one in self.waiting())

    @invariant()
    def nothing_is_lost(self) -> None:
        events = [one.message.id for one in [*self.on_way, *self.waiting()] if one.kind is Class.EVENT]
        assert events == self.expected

    @invariant()
    def bytes_are_counted(self) -> None:
        assert self.outgoing._bytes == sum(len(one.frame) for one in self.waiting())
        assert self.outgoing._unconfirmed_bytes == sum(len(one.frame) for one in self.on_way)

    def waiting(self) -> list[Entry]:
        return [*self.outgoing._answers, *self.outgoing._rest.values()]


TestOutgoingMachine = OutgoingMachine.TestCase


@given(st.lists(st.integers(1, 500), max_size=60))
def test_what_waits_never_exceeds_the_bounds(sizes: list[int]) -> None:
    """Neither number nor bytes, one large message apart."""
    outgoing = Outgoing(10, 1000)
    for size in sizes:
        outgoing.offer(entry(message("default/event/e", "insert"), size))
        assert len(outgoing) <= 10
        assert outgoing._bytes <= 1000
