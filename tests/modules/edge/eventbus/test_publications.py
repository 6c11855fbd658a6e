"""What waits for the broker, and which topics are whose."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.device_topics import is_filter, is_topic
from modules.edge.eventbus.publications import WINDOW, Drop, Publications, QueuedMessage
from modules.edge.eventbus.routing import is_for_devices

DELTA = "$hw/events/device/n/d/twin/update/delta"


def _all(queue: Publications) -> list[bytes]:
    found = []
    while (one := queue.next()) is not None:
        queue.acknowledged(one[0])
        found.append(one[1].payload)
    return found


@given(st.lists(st.binary(max_size=20), max_size=60), st.integers(1, 20), st.integers(1, 200))
def test_the_newest_stay_in_order_within_the_limits(payloads: list[bytes], most: int, most_bytes: int) -> None:
    """Law: what comes out is the end of what went in, and what is missing is counted."""
    dropped: Counter[Drop] = Counter()
    queue = Publications(most, most_bytes, dropped=dropped)
    for payload in payloads:
        queue.put(QueuedMessage("t", payload))
        assert len(queue) <= most
        assert queue.size <= most_bytes or len(queue) == 1
    out = _all(queue)
    assert out == payloads[len(payloads) - len(out) :]
    assert dropped[Drop.NO_ROOM] == len(payloads) - len(out)


def test_a_command_of_yesterday_is_not_published_today() -> None:
    """What has waited for longer than the limit is dropped and counted, also what was under way when the link ended."""
    dropped: Counter[Drop] = Counter()
    queue = Publications(most_age=60.0, dropped=dropped)
    queue.put(QueuedMessage("valve", b"open", at=0.0))
    assert queue.next(10.0) is not None
    queue.connection_lost()
    queue.put(QueuedMessage("valve", b"close", at=50.0))
    following = queue.next(100.0)
    assert following is not None
    assert following[1].payload == b"close"
    assert dropped == {Drop.TOO_OLD: 1}
    assert queue.size == 0


def test_the_newest_delta_tells_all() -> None:
    queue = Publications()
    for payload in (b"1", b"2", b"3"):
        queue.put(QueuedMessage(DELTA, payload))
        queue.put(QueuedMessage("out", payload))
    assert _all(queue) == [b"1", b"2", b"3", b"3"], "one delta, and all else"


def test_who_waits_for_a_message_learns_that_a_newer_one_of_its_topic_has_taken_its_place() -> None:
    queue, said = Publications(), list[str]()
    for payload in (b"1", b"2"):
        queue.put(QueuedMessage(DELTA, payload, done=said.append))
    assert said == ["a newer message of this topic has taken its place"]
    assert _all(queue) == [b"2"]
    assert said[1:] == [""]


def test_unacknowledged_messages_come_again_first() -> None:
    queue = Publications()
    for number in range(WINDOW + 5):
        queue.put(QueuedMessage("t", str(number).encode()))
    taken = [queue.next() for _ in range(WINDOW + 1)]
    assert taken[-1] is None, "the window is full"
    first = taken[0]
    assert first is not None
    queue.acknowledged(first[0])
    queue.connection_lost()
    assert _all(queue) == [str(number).encode() for number in range(1, WINDOW + 5)]


@pytest.mark.parametrize(
    ("topic", "good"),
    [("a", True), ("a/+/b", True), ("#", True), ("a/#", True), ("a/#/b", False), ("a+", False), ("", False)],
)
def test_filters(topic: str, good: bool) -> None:
    assert is_filter(topic) is good


@pytest.mark.parametrize(("topic", "good"), [("a/b", True), ("a/+", False), ("", False), ("ä" * 600, False)])
def test_topics(topic: str, good: bool) -> None:
    assert is_topic(topic) is good


def test_topics_of_devices() -> None:
    assert is_for_devices("$hw/events/device/n/d/twin/update")
    assert not is_for_devices("$hw/events/upload/x")
