"""What waits for the cloud: classes, order, bounds, and what a lost link gives back."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beehive import Message
from edgehub.classes import Entry, MessageClass, classify
from edgehub.outgoing import (
    EVENT_WINDOW_BYTES,
    WINDOW_BYTES,
    WINDOW_FRAMES,
    Ledger,
    Offered,
    OfferResult,
    OutboxChanges,
    Outgoing,
)
from edgehub.settings import Limit, Limits
from tests.edgehub.messages import message


def entry(sent: Message, size: int = 100) -> Entry:
    """An entry as the module makes it, with a frame of that size."""
    return Entry(sent, b"x" * size, classify(sent))


def bounded(messages: int, size: int, settle: float = 0.0) -> Outgoing:
    """The same limits for each class."""
    limit = Limit(messages, size)
    return Outgoing(Limits(volatile=limit, states=limit, events=limit, uploads=limit), settle)


def drain(outgoing: Outgoing) -> list[str]:
    """Ids in the order of sending, all confirmed."""
    ids = []
    while outgoing.peek() is not None:
        ids.append(outgoing.pop().message.id)
        outgoing.confirmed(1, 0.0)
    return ids


def test_an_entry_that_is_dropped_before_it_is_written_holds_nothing_back() -> None:
    ledger = Ledger()
    ledger.open(0)
    admitted = [ledger.admit(entry(message(f"default/podpatch/{name}", "patch"))) for name in ("a", "b")]
    for each, holds in zip(admitted, (True, False), strict=True):
        ledger.release(each)
        assert ledger.holds_back is holds


def test_the_largest_unconfirmed_message_is_forgotten_with_its_row() -> None:
    """So that it is not sent again after a restart; smaller ones, and ones that have not left, stay."""
    outgoing = bounded(10, 10_000)
    outgoing.attach([])
    for name, size in (("small", 100), ("large", 3000), ("waits", 4000)):
        outgoing.offer(entry(message(f"default/device/{name}", "upload"), size))
    outgoing.ledger.wrote(outgoing.ledger.drain())
    outgoing.pop(), outgoing.pop()
    assert outgoing.remove_largest(3000) is None
    found = outgoing.remove_largest(2999)
    assert found is not None
    assert found.message.route.resource == "default/device/large"
    assert outgoing.usage(MessageClass.UPLOAD) == (2, 4100)
    assert outgoing.ledger.drain().gone == (found.serial,)
    outgoing.link_lost()
    assert len(drain(outgoing)) == 2


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (message("default/podpatch/p", "patch", sync=True), MessageClass.REQUEST),
        (message("default/podpatch/p", "patch"), MessageClass.STATE),
        (message("null/nodepatch/n", "patch"), MessageClass.STATE),
        (message("default/podstatus/p", "update"), MessageClass.STATE),
        (message("default/podstatus", "update"), MessageClass.STATE),
        (message("default/nodestatus/n", "update"), MessageClass.STATE),
        (message("kube-node-lease/lease/n", "update"), MessageClass.STATE),
        (message("default/event/p.1", "update"), MessageClass.EVENT),
        (message("kube-node-lease/lease/n", "insert"), MessageClass.UPLOAD),
        (message("kube-node-lease/lease/n", "query"), MessageClass.UPLOAD),
        (message("default/pod/p", "response", parent_msg_id="p"), MessageClass.ANSWER),
        (message("default/podpatch/p", "error", parent_msg_id="p"), MessageClass.ANSWER),
        (message("default/pod/p", "response"), MessageClass.UPLOAD),
        (message("default/event/e", "insert"), MessageClass.EVENT),
        (message("default/event/e", "patch"), MessageClass.EVENT),
        (message("default/event/e", "insert", sync=True), MessageClass.REQUEST),
        (message("default/pod/p", "delete"), MessageClass.UPLOAD),
        (message("$hw/events/upload", "upload", group="user"), MessageClass.UPLOAD),
        (message("", "upload", parent_msg_id="p", source="servicebus", group="user"), MessageClass.RESPONSE),
        (message("http://a/b", "upload", sync=True, source="servicebus", group="user"), MessageClass.REQUEST),
    ],
)
def test_a_message_is_classified_by_its_sender_and_resource(sent: Message, kind: MessageClass) -> None:
    """One class each."""
    assert classify(sent) is kind


def test_events_leave_in_order_and_answers_before_them() -> None:
    """An acknowledgement does not wait behind statuses."""
    outgoing = bounded(10, 10_000)
    first, second = message("default/event/a", "insert"), message("default/event/b", "insert")
    answer = message("default/pod/p", "response", parent_msg_id="p")
    for sent in (first, second, answer):
        assert outgoing.offer(entry(sent)).result is OfferResult.QUEUED
    assert drain(outgoing) == [answer.id, first.id, second.id]


def test_a_newer_state_takes_the_place_of_the_older() -> None:
    """In its place in the order, and only for the same resource and operation."""
    outgoing = bounded(10, 10_000)
    old, other, event, new = (
        message("default/podstatus/a", "update"),
        message("default/podstatus/b", "update"),
        message("default/event/e", "insert"),
        message("default/podstatus/a", "update"),
    )
    for sent in (old, event, other):
        assert outgoing.offer(entry(sent)).result is OfferResult.QUEUED
    assert outgoing.offer(entry(new)).result is OfferResult.SUPERSEDED_OLDER
    assert drain(outgoing) == [new.id, other.id, event.id]


def upload(name: str = "u") -> Message:
    """A message that is to be kept in order."""
    return message(f"default/device/{name}", "upload")


def test_the_number_of_messages_of_a_class_is_bounded() -> None:
    """The newest finds no room; a newer state of a waiting object does, and so does what is of another class."""
    outgoing = bounded(2, 10_000)
    for name in ("a", "b"):
        assert outgoing.offer(entry(upload(name))).result is OfferResult.QUEUED
    assert outgoing.offer(entry(upload("c"))).result is OfferResult.NO_ROOM
    for pod in ("a", "b"):
        assert outgoing.offer(entry(message(f"default/podstatus/{pod}"))).result is OfferResult.QUEUED
    assert outgoing.offer(entry(message("default/podstatus/a"))).result is OfferResult.SUPERSEDED_OLDER
    assert outgoing.offer(entry(message("default/podstatus/c"))).result is OfferResult.NO_ROOM
    assert (outgoing.usage(MessageClass.UPLOAD), outgoing.usage(MessageClass.STATE)) == ((2, 200), (2, 200))


def test_the_oldest_events_give_way_to_newer_ones() -> None:
    """What happened last says most about what is wrong now."""
    outgoing = bounded(2, 10_000)
    first, second, third = (message(f"default/event/{name}", "insert") for name in "abc")
    outgoing.offer(entry(first))
    outgoing.offer(entry(second))
    offered = outgoing.offer(entry(third))
    assert (offered.result, [one.message.id for one in offered.dropped]) == (OfferResult.QUEUED, [first.id])
    assert drain(outgoing) == [second.id, third.id]


def test_the_bytes_of_a_class_are_bounded_but_one_large_message_may_be_alone() -> None:
    """A bound smaller than the largest message must not refuse it for ever."""
    outgoing = bounded(10, 1000)
    assert outgoing.offer(entry(upload(), 5000)).result is OfferResult.QUEUED
    assert outgoing.offer(entry(upload(), 1)).result is OfferResult.NO_ROOM
    drain(outgoing)
    assert outgoing.offer(entry(upload(), 600)).result is OfferResult.QUEUED
    assert outgoing.offer(entry(upload(), 401)).result is OfferResult.NO_ROOM
    assert outgoing.offer(entry(upload(), 400)).result is OfferResult.QUEUED


def test_arrived_messages_stay_for_a_keepalive_period_and_leave_again_if_the_link_ends_in_it() -> None:
    """A cloud that has read it may die before it has done anything with it."""
    outgoing = bounded(10, 10_000, settle=15.0)
    early, late, last = upload("a"), upload("b"), upload("c")
    for sent in (early, late, last):
        outgoing.offer(entry(sent))
        outgoing.pop()
    outgoing.confirmed(1, 100.0)
    outgoing.confirmed(1, 110.0)
    assert outgoing.settled(114.9) == 115.0
    assert outgoing.settled(115.0) == 125.0
    assert outgoing.link_lost() == []
    assert drain(outgoing) == [late.id, last.id]


def test_a_message_that_arrived_a_second_time_is_forgotten() -> None:
    """On a link that flaps nothing would ever settle, and all of it would leave again each time."""
    outgoing = bounded(10, 10_000, settle=15.0)
    outgoing.offer(entry(upload()))
    for now in (0.0, 1.0):
        outgoing.pop()
        outgoing.confirmed(1, now)
        outgoing.link_lost()
    assert outgoing.peek() is None
    assert outgoing.usage(MessageClass.UPLOAD) == (0, 0)
    assert not outgoing._read_before


def test_of_a_state_that_has_arrived_and_gives_way_to_a_newer_one_nothing_stays() -> None:
    outgoing = bounded(10, 10_000, settle=15.0)
    older, newer = (message("default/podstatus/p", "update", {"n": number}) for number in range(2))
    outgoing.offer(entry(older))
    outgoing.pop()
    outgoing.confirmed(1, 0.0)
    outgoing.offer(entry(newer))
    outgoing.link_lost()
    assert drain(outgoing) == [newer.id]
    assert not outgoing._read_before


def test_arrived_messages_give_way_before_any_is_refused() -> None:
    """A fast peer is not held back by what it has already."""
    outgoing = bounded(2, 10_000, settle=15.0)
    for name in "abcdef":
        assert outgoing.offer(entry(upload(name))).result is OfferResult.QUEUED
        outgoing.pop()
        outgoing.confirmed(1, 0.0)


@pytest.mark.parametrize("read", [0, 1, 2])
def test_an_answer_of_the_cloud_ends_the_keeping_immediately(read: int) -> None:
    """Also of what was older of the same state, read or on its way: it must not come back after it."""
    outgoing = bounded(10, 10_000, settle=15.0)
    old, other, new = message("default/podstatus/a"), upload(), message("default/podstatus/a")
    for sent in (old, other, new):
        outgoing.offer(entry(sent))
        outgoing.pop()
    outgoing.confirmed(read, 0.0)
    outgoing.answered(new.id)
    outgoing.link_lost()
    assert drain(outgoing) == [other.id]
    assert outgoing.usage(MessageClass.STATE) == (0, 0)


def test_an_answer_to_an_older_state_does_not_settle_a_newer_one() -> None:
    outgoing = bounded(10, 10_000, settle=15.0)
    old, new = (message("default/podstatus/a") for _ in range(2))
    for sent in (old, new):
        outgoing.offer(entry(sent))
        outgoing.pop()
    outgoing.confirmed(2, 0.0)
    outgoing.answered(old.id)
    outgoing.link_lost()
    assert drain(outgoing) == [new.id]


def test_a_message_answered_on_its_way_is_settled_when_the_link_ends() -> None:
    """It takes no room of its class any more, and a later message may have it."""
    outgoing = bounded(1, 10_000, settle=15.0)
    sent = upload()
    outgoing.offer(entry(sent))
    outgoing.pop()
    outgoing.answered(sent.id)
    outgoing.link_lost()
    assert outgoing.peek() is None
    assert outgoing.usage(MessageClass.UPLOAD) == (0, 0)
    assert not outgoing._answered_ids
    assert outgoing.offer(entry(upload("later"))).result is OfferResult.QUEUED


def test_messages_older_than_their_limit_are_dropped() -> None:
    """Only of classes that grow old."""
    young = Limit(10, 10_000, 60.0)
    outgoing = Outgoing(Limits(events=young, states=Limit(10, 10_000)))
    event, state = message("default/event/e", "insert"), message("default/podstatus/a")
    for sent in (event, state):
        outgoing.offer(entry(sent))
    assert outgoing.expire(60.0) == []
    assert [one.message.id for one in outgoing.expire(60.1)] == [event.id]
    assert drain(outgoing) == [state.id]


def stored(outgoing: Outgoing, disk: dict[int, Entry]) -> None:
    """Let the store have what it is to have."""
    changes = outgoing.ledger.drain()
    apply(changes, disk)
    outgoing.ledger.wrote(changes)


def apply(changes: OutboxChanges, disk: dict[int, Entry]) -> None:
    """As the store does."""
    disk.update((one.serial, one) for one in changes.put)
    for serial in changes.gone:
        disk.pop(serial, None)


def test_rows_that_two_refused_writes_made_and_removed_are_not_to_be_removed() -> None:
    """Or their removals would pile up while the disk is full."""
    outgoing = bounded(10, 10_000)
    outgoing.attach([])
    writes = []
    for _ in range(2):
        outgoing.offer(entry(message("default/podstatus/web", "update")))
        writes.append(outgoing.ledger.drain())
    first, second = writes
    assert (len(first.put), first.gone, len(second.put), second.gone) == (1, (), 1, (first.put[0].serial,))
    outgoing.ledger.refused(OutboxChanges(first.put + second.put, first.gone + second.gone), outgoing.all_entries())
    assert outgoing.ledger.drain() == second._replace(gone=())


def test_a_kept_message_does_not_leave_before_it_is_written_and_holds_up_no_other() -> None:
    """A request behind it leaves immediately."""
    outgoing, disk = bounded(10, 10_000), dict[int, Entry]()
    outgoing.attach([])
    kept, request = upload(), message("default/configmap/c", "query", sync=True)
    outgoing.offer(entry(kept))
    outgoing.offer(entry(request))
    assert outgoing.pop().message.id == request.id
    assert outgoing.peek() is None
    stored(outgoing, disk)
    assert [one.message.id for one in disk.values()] == [kept.id]
    assert outgoing.pop().message.id == kept.id


def test_a_message_that_comes_during_a_write_waits_for_the_next_one() -> None:
    outgoing, disk = bounded(10, 10_000), dict[int, Entry]()
    outgoing.attach([])
    first, second = upload("a"), upload("b")
    outgoing.offer(entry(first))
    changes = outgoing.ledger.drain()
    outgoing.offer(entry(second))
    outgoing.ledger.wrote(changes)
    assert drain(outgoing) == [first.id]
    stored(outgoing, disk)
    assert drain(outgoing) == [second.id]


def test_the_newest_state_takes_the_place_of_the_one_that_was_on_its_way() -> None:
    """When the link ends: before states that came later than that one."""
    outgoing = bounded(10, 10_000)
    states = [message(f"default/podstatus/{name}", "update") for name in "pqp"]
    outgoing.offer(entry(states[0]))
    outgoing.pop()
    for each in states[1:]:
        outgoing.offer(entry(each))
    outgoing.link_lost()
    assert drain(outgoing) == [states[2].id, states[1].id]


def test_a_large_event_is_alone_among_events_only() -> None:
    """It does not wait until nothing is on its way."""
    outgoing = bounded(10, 10 * EVENT_WINDOW_BYTES)
    outgoing.offer(entry(message("default/podstatus/p", "update")))
    outgoing.pop()
    large, small = message("default/event/a", "insert"), message("default/event/b", "insert")
    outgoing.offer(entry(large, EVENT_WINDOW_BYTES + 1))
    outgoing.offer(entry(small))
    assert outgoing.peek() is not None
    assert outgoing.pop().message.id == large.id
    assert outgoing.peek() is None


def test_messages_that_the_store_cannot_take_leave_and_are_sent_again() -> None:
    """A full disk stops nobody; when there is room again what still waits is written."""
    outgoing, disk = bounded(10, 10_000), dict[int, Entry]()
    outgoing.attach([])
    outgoing.offer(entry(upload("a")))
    outgoing.offer(entry(upload("b")))
    changes = outgoing.ledger.drain()
    outgoing.ledger.refused(changes, outgoing.all_entries())
    outgoing.pop()
    outgoing.confirmed(1, 0.0)
    stored(outgoing, disk)
    assert [one.message.route.resource for one in disk.values()] == ["default/device/b"]


def test_answers_leave_in_their_order_again_after_a_lost_link() -> None:
    outgoing = bounded(10, 10_000)
    answers = [message(f"default/pod/{name}", "response", parent_msg_id="p") for name in "abc"]
    for each in answers:
        outgoing.offer(entry(each))
    assert [outgoing.pop().message.id for _ in range(2)] == [each.id for each in answers[:2]]
    outgoing.link_lost()
    assert drain(outgoing) == [each.id for each in answers]


def test_removals_do_not_pile_up_while_the_store_refuses() -> None:
    """A state that a newer one replaces during a write that then fails has no row."""
    outgoing = bounded(10, 10_000)
    outgoing.attach([])
    for _ in range(100):
        outgoing.offer(entry(message("default/podstatus/p", "update")))
        changes = outgoing.ledger.drain()
        outgoing.offer(entry(message("default/podstatus/p", "update")))
        outgoing.ledger.refused(changes, outgoing.all_entries())
    assert outgoing.ledger.removals == 0


def test_messages_found_in_the_store_wait_before_later_ones() -> None:
    """And what came meanwhile is stored then."""
    first, second = upload("a"), upload("b")
    outgoing, disk = bounded(10, 10_000), {7: Entry(first, b"x", MessageClass.UPLOAD, serial=7)}
    outgoing.offer(entry(second))
    outgoing.attach(disk.values())
    stored(outgoing, disk)
    assert sorted(disk) == [7, 8]
    assert outgoing.usage(MessageClass.UPLOAD) == (2, 101)
    assert drain(outgoing) == [first.id, second.id]


def test_a_reopened_store_gets_the_changes_that_it_lacks() -> None:
    """The module was started again while a change was under way: here is known what is true."""
    outgoing, disk = bounded(10, 10_000), dict[int, Entry]()
    outgoing.attach([])
    gone, kept = upload("a"), upload("b")
    outgoing.offer(entry(gone))
    stored(outgoing, disk)
    outgoing.pop()
    outgoing.confirmed(1, 0.0)
    outgoing.offer(entry(kept))
    outgoing.ledger.drain()
    outgoing.attach(disk.values())
    assert outgoing.ledger.holds_back, "it is written at once"
    stored(outgoing, disk)
    assert [one.message.id for one in disk.values()] == [kept.id]


def test_the_update_of_an_event_takes_the_place_of_its_waiting_insert() -> None:
    """It has the whole event; a container in a crash loop does not fill the room with its counts."""
    outgoing = bounded(10, 10_000)
    first, other = message("default/event/a", "insert"), message("default/event/b", "insert")
    for sent in (first, other):
        outgoing.offer(entry(sent))
    updates = [message("default/event/a", "update") for _ in range(3)]
    for sent in updates:
        assert outgoing.offer(entry(sent)).result is OfferResult.SUPERSEDED_OLDER
    assert outgoing.usage(MessageClass.EVENT)[0] == 2
    assert drain(outgoing) == [updates[-1].id, other.id]


def test_the_patch_of_an_event_takes_no_place() -> None:
    """It is no whole event: without the first one the cloud has nothing to change."""
    outgoing = bounded(10, 10_000)
    sent = [message("default/event/a", operation) for operation in ("insert", "patch", "patch")]
    for each in sent:
        assert outgoing.offer(entry(each)).result is OfferResult.QUEUED
    assert drain(outgoing) == [each.id for each in sent]


def test_few_bytes_of_events_are_on_their_way_so_that_a_status_does_not_wait_behind_them() -> None:
    """Over a link of 10 kB/s a full window is 26 s."""
    outgoing = bounded(1000, 10_000_000)
    large = EVENT_WINDOW_BYTES + 1
    for number, size in enumerate((large, 1000, EVENT_WINDOW_BYTES - 1000, 1)):
        one = message(f"default/event/{number}", "insert")
        outgoing.offer(Entry(one, b"x" * size, classify(one)))
    status = message("default/podpatch/p", "patch", sync=True)

    def leave() -> int:
        left = 0
        while outgoing.peek() is not None:
            outgoing.pop()
            left += 1
        return left

    assert leave() == 1, "a large one is alone"
    outgoing.offer(entry(status))
    assert leave() == 1, "the status"
    outgoing.confirmed(1, 0.0)
    assert leave() == 2
    outgoing.confirmed(1, 0.0)
    assert leave() == 0, "the status is confirmed, no event"
    outgoing.link_lost()
    assert leave() == 2
    outgoing.confirmed(1, 0.0)
    assert leave() == 1


def test_no_more_than_a_window_is_on_its_way() -> None:
    """A peer that confirms nothing gets 256 frames and no more."""
    outgoing = bounded(1000, 10_000_000)
    for _ in range(300):
        outgoing.offer(entry(message("default/device/d", "upload")))
    left = 0
    while outgoing.peek() is not None:
        outgoing.pop()
        left += 1
    assert left == WINDOW_FRAMES
    outgoing.confirmed(1, 0.0)
    assert outgoing.peek() is not None


def test_a_message_that_fills_the_window_to_the_last_byte_leaves() -> None:
    outgoing = bounded(10, 2 * WINDOW_BYTES)
    outgoing.offer(entry(upload("a"), 100))
    outgoing.offer(entry(upload("b"), WINDOW_BYTES - 100))
    outgoing.pop()
    assert outgoing.peek() is not None


def test_a_newer_state_in_a_full_class_leaves_arrived_messages_alone() -> None:
    """It takes the room of the older one, so nothing else has to give way."""
    outgoing = bounded(2, 10_000, settle=15.0)
    outgoing.offer(entry(message("default/podpatch/p", "patch")))
    outgoing.pop()
    outgoing.confirmed(1, 100.0)
    results = [outgoing.offer(entry(message("default/podpatch/q", "patch"))).result for _ in range(2)]
    assert results == [OfferResult.QUEUED, OfferResult.SUPERSEDED_OLDER]
    assert outgoing.settled(101.0) == 115.0


def test_of_messages_that_have_arrived_only_so_many_give_way_as_need_be() -> None:
    """The oldest ones of the class, each once."""
    outgoing = bounded(3, 10_000, settle=15.0)
    for name in "abc":
        outgoing.offer(entry(upload(name)))
        outgoing.pop()
        outgoing.confirmed(1, 100.0)
    assert outgoing.offer(entry(upload("d"))).result is OfferResult.QUEUED
    assert outgoing.usage(MessageClass.UPLOAD) == (3, 300)
    outgoing.settled(115.0)
    assert outgoing.usage(MessageClass.UPLOAD) == (1, 100)


def test_nothing_gives_way_to_a_request() -> None:
    """Its sender hears of it."""
    outgoing = bounded(1, 10_000)
    first, second = (message(f"default/configmap/{name}", "query", sync=True) for name in "ab")
    assert outgoing.offer(entry(first)) == Offered(OfferResult.QUEUED)
    assert outgoing.offer(entry(second)) == Offered(OfferResult.NO_ROOM)
    assert drain(outgoing) == [first.id]


def test_events_on_their_way_do_not_give_way_to_a_new_one() -> None:
    """The cloud may have them."""
    outgoing = bounded(1, 10_000)
    outgoing.offer(entry(message("default/event/a", "insert")))
    outgoing.pop()
    assert outgoing.offer(entry(message("default/event/b", "insert"))) == Offered(OfferResult.NO_ROOM)


def test_a_message_larger_than_the_window_leaves_alone() -> None:
    """It waits until nothing else is on its way."""
    outgoing = bounded(10, 100_000_000)
    small, large = message("default/event/e", "insert"), message("default/event/f", "insert")
    outgoing.offer(entry(small))
    outgoing.offer(entry(large, WINDOW_BYTES + 1))
    assert outgoing.pop().message.id == small.id
    assert outgoing.peek() is None
    outgoing.confirmed(1, 0.0)
    assert outgoing.pop().message.id == large.id


def test_a_lost_link_gives_back_unconfirmed_messages_before_all_others() -> None:
    """In the old order, requests apart; keepalives and applications' responses are forgotten."""
    outgoing = bounded(10, 10_000)
    confirmed, sent, waiting = (message(f"default/event/{name}", "insert") for name in "abc")
    request, waiting_request = (message("default/configmap/c", "query", sync=True) for _ in range(2))
    keepalive = Entry(message("node", "keepalive"), b"ping", MessageClass.KEEPALIVE)
    responses = [message("", "upload", parent_msg_id="p", source="servicebus", group="user") for _ in range(2)]
    for one in (confirmed, sent, request, responses[0]):
        outgoing.offer(entry(one))
        outgoing.pop()
    for one in (waiting, waiting_request, responses[1]):
        outgoing.offer(entry(one))
    outgoing.record_sent(keepalive)
    outgoing.confirmed(1, 0.0)
    assert [one.id for one in outgoing.link_lost()] == [request.id, waiting_request.id]
    assert drain(outgoing) == [sent.id, waiting.id]
    assert outgoing.link_lost() == []


@pytest.mark.parametrize("answered_first", [True, False], ids=["answered, then confirmed", "confirmed, then answered"])
def test_a_request_that_has_arrived_is_given_back_unless_it_was_answered(*, answered_first: bool) -> None:
    """The cloud that read it may be gone. Its content is not kept for that."""
    outgoing = bounded(10, 10_000)
    read, answered = (message("default/podpatch/p", "patch", {"a": 1}, sync=True) for _ in range(2))
    for one in (read, answered):
        outgoing.offer(entry(one))
        outgoing.pop()
    if answered_first:
        outgoing.answered(answered.id)
    outgoing.confirmed(2, 0.0)
    if not answered_first:
        outgoing.answered(answered.id)
    assert outgoing.usage(MessageClass.REQUEST) == (0, 0)
    assert outgoing.link_lost() == [read.with_content(None)]
    assert outgoing.link_lost() == []


def test_no_more_unanswered_requests_are_remembered_than_may_wait() -> None:
    """A cloud that answers nothing does not fill the memory; who asked has a deadline."""
    outgoing = bounded(3, 10_000)
    asked = [message("default/podpatch/p", "patch", sync=True) for _ in range(5)]
    for one in asked:
        outgoing.offer(entry(one))
        outgoing.pop()
        outgoing.confirmed(1, 0.0)
    assert [one.id for one in outgoing.link_lost()] == [one.id for one in asked[2:]]


def test_a_state_that_comes_back_gives_way_to_a_newer_one() -> None:
    """It was on its way when the newer one came to wait; the cloud gets the newer one, in the older one's place."""
    outgoing = bounded(10, 10_000)
    old, event, new = (
        message("default/podstatus/a", "update"),
        message("default/event/e", "insert"),
        message("default/podstatus/a", "update"),
    )
    outgoing.offer(entry(old))
    outgoing.pop()
    outgoing.offer(entry(event))
    outgoing.offer(entry(new))
    outgoing.link_lost()
    assert drain(outgoing) == [new.id, event.id]


def in_order(entries: Iterable[Entry], kind: MessageClass) -> list[Entry]:
    """The events of a class, without updates, which leave in place of their inserts."""
    return [one for one in entries if one.kind is kind and one.message.route.operation != "update"]


class OutgoingMachine(RuleBasedStateMachine):
    """Any interleaving, with a store and crashes: nothing that was written is lost or reordered before it has settled,
    no older state comes after a newer one, no request survives a lost link, the bounds hold.
    """

    def __init__(self) -> None:
        super().__init__()
        self.disk: dict[int, Entry] = {}
        self.requests: set[str] = set()
        self.now = 0.0
        self.made = 0
        self.begin()

    def begin(self) -> None:
        self.outgoing = bounded(8, 2000, settle=5.0)
        self.outgoing.attach(self.disk.values())
        self.told: list[OutboxChanges] = []
        """Changes that the store is being told."""
        self.on_way: list[Entry] = []

    @rule(
        size=st.integers(1, 900),
        kind=st.sampled_from(["upload", "state", "event", "count", "request", "answer"]),
        name=st.integers(0, 2),
    )
    def offer(self, size: int, kind: str, name: int) -> None:
        made = {
            "upload": lambda: message(f"default/device/{name}", "upload"),
            "event": lambda: message(f"default/event/{self.made}", "insert"),
            "count": lambda: message(f"default/event/{max(0, self.made - name)}", "update"),
            "state": lambda: message(f"default/podstatus/{name}", "update"),
            "request": lambda: message(f"default/configmap/{name}", "query", sync=True),
            "answer": lambda: message(f"default/pod/{name}", "response", parent_msg_id="p"),
        }[kind]()
        self.made += 1
        if kind == "request":
            self.requests.add(made.id)
        self.outgoing.offer(Entry(made.with_header(timestamp=self.made), b"x" * size, classify(made), self.now))

    @rule()
    def write(self) -> None:
        self.told.append(self.outgoing.ledger.drain())

    @precondition(lambda self: self.told)
    @rule(works=st.booleans())
    def written(self, *, works: bool) -> None:
        changes = self.told.pop(0)
        if works:
            apply(changes, self.disk)
            self.outgoing.ledger.wrote(changes)
        else:
            for later in self.told:
                changes = OutboxChanges((*changes.put, *later.put), (*changes.gone, *later.gone))
            self.told.clear()
            self.outgoing.ledger.refused(changes, self.outgoing.all_entries())

    @rule()
    def leave(self) -> None:
        if self.outgoing.peek() is not None:
            self.on_way.append(self.outgoing.pop())

    @precondition(lambda self: self.on_way)
    @rule(data=st.data(), seconds=st.floats(0, 6))
    def arrive(self, data: st.DataObject, seconds: float) -> None:
        self.now += seconds
        number = data.draw(st.integers(1, len(self.on_way)))
        self.outgoing.confirmed(number, self.now)
        del self.on_way[:number]

    @precondition(lambda self: self.on_way or self.outgoing._settling)
    @rule(data=st.data())
    def answered(self, data: st.DataObject) -> None:
        sent = [*(one for _, one in self.outgoing._settling), *self.on_way]
        self.outgoing.answered(data.draw(st.sampled_from(sent)).message.id)

    @rule()
    def lose(self) -> None:
        assert {one.id for one in self.outgoing.link_lost()} <= self.requests
        assert not self.outgoing._open_requests
        self.on_way.clear()
        assert not any(one.kind is MessageClass.REQUEST for one in self.outgoing.all_entries())

    @rule(half=st.booleans())
    def crash(self, *, half: bool) -> None:
        if half and self.told:
            apply(self.told[0], self.disk)
        before = dict(self.disk)
        self.begin()
        for kind in (MessageClass.UPLOAD, MessageClass.EVENT):
            found = [one.message.id for one in in_order(self.outgoing.all_entries(), kind)]
            assert found == [one.message.id for one in in_order((before[n] for n in sorted(before)), kind)]

    @invariant()
    def what_is_here_and_was_written_is_on_the_disk(self) -> None:
        untold = {serial for changes in self.told for serial in changes.gone}
        for one in self.outgoing.all_entries():
            if one.serial and one.serial not in self.outgoing.ledger._put and not self.told:
                assert one.serial in self.disk or one.serial in untold

    @invariant()
    def only_rows_are_to_be_removed(self) -> None:
        """Or the removals would pile up while the store refuses them."""
        assert self.told or set(self.outgoing.ledger._gone) <= set(self.disk)

    @invariant()
    def order_is_kept(self) -> None:
        for kind in (MessageClass.UPLOAD, MessageClass.EVENT):
            settling = (one for _, one in self.outgoing._settling)
            kept = [*settling, *self.outgoing._unconfirmed, *self.outgoing._lanes.entries()]
            times = [one.message.header.timestamp for one in in_order(kept, kind)]
            assert times == sorted(times)

    @invariant()
    def no_older_state_waits_behind_a_newer_one(self) -> None:
        newest: dict[object, int] = {}
        for one in [*(e for _, e in self.outgoing._settling), *self.on_way, *self.outgoing._lanes.entries()]:
            if one.state is not None:
                assert newest.get(one.state, 0) <= one.message.header.timestamp
                newest[one.state] = one.message.header.timestamp

    @invariant()
    def the_disk_has_no_state_without_its_newer_ones(self) -> None:
        """Or it would leave after them in the next life."""
        for one in self.outgoing._lanes.entries():
            if one.state is not None and self.outgoing.ledger.admits(one) and not self.told:
                same = [e for e in self.disk.values() if e.state == one.state]
                assert (
                    not same
                    or max(same, key=lambda e: e.serial).message.header.timestamp <= one.message.header.timestamp
                )

    @invariant()
    def what_there_is_is_counted(self) -> None:
        there = [*self.outgoing.all_entries(), *self.outgoing._answers]
        for kind in MessageClass:
            mine = [one for one in there if one.kind is kind]
            assert self.outgoing.usage(kind) == (len(mine), sum(len(one.frame) for one in mine))
            assert len(mine) <= 8
        events = sum(len(one.frame) for one in self.on_way if one.kind is MessageClass.EVENT)
        assert self.outgoing._unconfirmed_events == events
        assert self.outgoing._unconfirmed_bytes == sum(len(one.frame) for one in self.on_way)
        assert self.outgoing._read_before | self.outgoing._answered_ids <= {one.message.id for one in there}

    @invariant()
    def entries_are_held_back_while_one_that_is_no_event_is_to_be_written(self) -> None:
        ledger = self.outgoing.ledger
        assert ledger.holds_back == any(one.kind is not MessageClass.EVENT for one in ledger._put.values())

    @invariant()
    def the_lanes_know_what_waits_and_nothing_else(self) -> None:
        """Messages about one object leave in their order, and no name stays that nothing waits for."""
        lanes = self.outgoing._lanes
        waiting = {lane: [one.message.route.resource for one in each.values()] for lane, each in lanes._lanes.items()}
        assert lanes._about == Counter((lane, about) for lane, found in waiting.items() for about in found)
        assert {lane for lane in lanes._passed if not waiting[lane]} == set()


TestOutgoingMachine = OutgoingMachine.TestCase
