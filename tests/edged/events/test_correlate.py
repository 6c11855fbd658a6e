"""Few events of many occurrences: client-go's rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.events.model import MOST_CHARACTERS, EventType, Occurrence, shortened
from edged.events.reporter import (
    COMBINED,
    RECORD_SECONDS,
    SIMILAR,
    SIMILAR_SECONDS,
    SPAM_BURST,
    SPAM_RATE,
    EventCorrelator,
)
from modules.apimachinery.types import EventSource, ObjectReference, seconds

POD = ObjectReference(kind="Pod", api_version="v1", namespace="default", name="web", uid="uid-web")
NODE = ObjectReference(kind="Node", name="n1", uid="n1")
SOURCE = EventSource(component="kubelet", host="n1")


def occurrence(
    message: str = "Started",
    at: float = 0.0,
    about: ObjectReference = POD,
    reason: str = "Started",
    event_type: EventType = EventType.NORMAL,
) -> Occurrence:
    return Occurrence(about, event_type, reason, message, seconds(at))


def test_the_first_is_a_new_event_with_everything_that_kubectl_shows() -> None:
    made = EventCorrelator(SOURCE).correlate(occurrence("Started container main", 3.5), 3.5)
    assert made is not None
    event = made.event
    assert made.is_new
    assert (event.metadata.namespace, event.metadata.name) == ("default", f"web.{3_500_000_000:x}")
    assert (event.kind, event.api_version, event.type, event.reason) == ("Event", "v1", "Normal", "Started")
    assert (event.message, event.count) == ("Started container main", 1)
    assert event.involved_object == POD
    assert (event.source, event.reporting_component, event.reporting_instance) == (SOURCE, "kubelet", "n1")
    assert event.first_timestamp == event.last_timestamp == "1970-01-01T00:00:03Z"


def test_equal_occurrences_are_one_event_with_a_count() -> None:
    correlator = EventCorrelator(SOURCE)
    first = correlator.correlate(occurrence(at=1), 1)
    again = correlator.correlate(occurrence(at=9), 9)
    assert first is not None
    assert again is not None
    assert not again.is_new
    assert again.event.metadata == first.event.metadata
    assert (again.event.count, again.event.first_timestamp) == (2, "1970-01-01T00:00:01Z")
    assert again.event.last_timestamp == "1970-01-01T00:00:09Z"


def test_containers_and_reasons_are_distinguished() -> None:
    correlator = EventCorrelator(SOURCE)
    other = ObjectReference(kind="Pod", namespace="default", name="web", uid="uid-web", field_path="spec.containers{b}")
    kinds = [occurrence(), occurrence(about=other), occurrence(reason="Created"), occurrence(about=NODE)]
    made = [correlator.correlate(each, 0) for each in kinds]
    assert all(each is not None and each.is_new for each in made)
    assert len({each.event.metadata.name for each in made if each is not None}) == len(kinds)


@pytest.mark.parametrize("other", [{"about": NODE}, {"reason": "Created"}, {"event_type": EventType.WARNING}], ids=str)
def test_what_differs_in_more_than_the_message_is_not_combined(other: dict[str, Any]) -> None:
    correlator = EventCorrelator(SOURCE)
    for number in range(SIMILAR):
        correlator.correlate(occurrence(f"attempt {number}"), number)
    made = correlator.correlate(occurrence("another", **other), SIMILAR)
    assert made is not None
    assert (made.is_new, made.event.message) == (True, "another")


def test_events_of_the_node_are_in_the_default_namespace() -> None:
    made = EventCorrelator(SOURCE).correlate(occurrence(about=NODE), 0)
    assert made is not None
    assert made.event.metadata.namespace == "default"
    assert made.event.involved_object.namespace == ""


def test_ten_occurrences_that_differ_only_by_message_are_combined() -> None:
    correlator = EventCorrelator(SOURCE)
    made = [correlator.correlate(occurrence(f"attempt {n}"), n) for n in range(SIMILAR + 2)]
    messages = [each.event.message for each in made if each is not None]
    assert messages[: SIMILAR - 1] == [f"attempt {n}" for n in range(SIMILAR - 1)]
    assert messages[SIMILAR - 1 :] == [f"{COMBINED}attempt {n}" for n in range(SIMILAR - 1, SIMILAR + 2)]
    combined = [each.event for each in made if each is not None][SIMILAR - 1 :]
    assert [event.count for event in combined] == [1, 2, 3]
    assert len({event.metadata.name for event in combined}) == 1


def test_of_many_messages_only_the_last_ones_are_remembered() -> None:
    """As by client-go's aggregator: a pod that fails with another message each time takes no memory for all of them."""
    correlator = EventCorrelator(SOURCE)
    for number in range(SPAM_BURST):
        correlator.correlate(occurrence(f"attempt {number}"), number)
    (group,) = correlator._groups._items.values()
    assert group.messages == tuple(f"attempt {number}" for number in range(SPAM_BURST - SIMILAR + 1, SPAM_BURST))


def test_after_ten_quiet_minutes_it_is_reset() -> None:
    correlator = EventCorrelator(SOURCE)
    for n in range(SIMILAR):
        correlator.correlate(occurrence(f"attempt {n}"), 0)
    late = correlator.correlate(occurrence("attempt 99"), SIMILAR_SECONDS + 1)
    assert late is not None
    assert late.event.message == "attempt 99"


def test_more_than_25_about_one_pod_are_dropped_and_one_more_is_let_through_every_five_minutes() -> None:
    correlator = EventCorrelator(SOURCE)
    made = [correlator.correlate(occurrence(), 0) for _ in range(SPAM_BURST + 5)]
    assert sum(each is not None for each in made) == SPAM_BURST
    assert correlator.dropped == 5
    assert correlator.correlate(occurrence(), 299) is None
    late = correlator.correlate(occurrence(), 301)
    assert late is not None
    assert late.event.count == SPAM_BURST + 7, "what was dropped has happened all the same"
    assert correlator.correlate(occurrence(about=NODE), 301) is not None, "others are not held back by it"


def test_two_of_one_moment_have_two_names() -> None:
    correlator = EventCorrelator(SOURCE)
    names = [made.event.metadata.name for n in range(5) if (made := correlator.correlate(occurrence(f"{n}"), 0))]
    assert len(set(names)) == 5


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abc")), max_size=200))
def test_whatever_happens_names_are_unique_counts_grow_by_one_and_memory_stays_bounded(
    history: list[tuple[int, str]],
) -> None:
    correlator = EventCorrelator(SOURCE, remembered=8)
    counts: dict[str, int] = {}
    for number, (pod, message) in enumerate(history):
        about = ObjectReference(kind="Pod", namespace="default", name=f"p{pod}", uid=f"u{pod}")
        made = correlator.correlate(occurrence(message, number, about), number)
        if made is None:
            continue
        name = made.event.metadata.name
        assert made.is_new == (name not in counts)
        assert made.event.count > counts.get(name, 0)
        counts[name] = made.event.count
    assert all(len(memory._items) <= 8 for memory in (correlator._groups, correlator._records, correlator._buckets))


def test_an_event_that_the_cloud_has_no_more_is_made_anew() -> None:
    """kube-apiserver deletes an Event an hour after its last write."""
    correlator = EventCorrelator(SOURCE)
    correlator.correlate(occurrence(), 0)
    again = correlator.correlate(occurrence(), RECORD_SECONDS)
    assert again is not None
    assert (again.is_new, again.event.count) == (False, 2)
    late = correlator.correlate(occurrence(), 2 * RECORD_SECONDS + 1)
    assert late is not None
    assert (late.is_new, late.event.count) == (True, 1)


def test_an_event_counts_on_as_long_as_the_last_one_is_recent() -> None:
    """Each write makes kube-apiserver keep the Event for another hour."""
    correlator = EventCorrelator(SOURCE)
    made = [correlator.correlate(occurrence(), number * RECORD_SECONDS * 0.6) for number in range(4)]
    assert [each.event.count for each in made if each is not None] == [1, 2, 3, 4]


def test_what_is_as_good_as_nothing_is_not_remembered() -> None:
    """A node on which pods come and go all day keeps no more than on its first one."""
    correlator = EventCorrelator(SOURCE)

    def happens(pod: str, at: float) -> None:
        correlator.correlate(occurrence(about=ObjectReference(kind="Pod", name=pod, uid=pod)), at)

    def sizes() -> tuple[int, ...]:
        return tuple(len(each._items) for each in (correlator._groups, correlator._records, correlator._buckets))

    for number in range(100):
        happens(f"p{number}", 0)
    happens("a", 1 / SPAM_RATE - 1)
    assert sizes() == (101, 101, 101)
    happens("b", 1 / SPAM_RATE)
    assert sizes() == (102, 102, 2), "their buckets are full again"
    happens("c", SIMILAR_SECONDS + 1)
    assert sizes() == (3, 103, 1)
    happens("d", RECORD_SECONDS + 1)
    assert sizes() == (1, 4, 1)


def test_a_long_message_is_cut() -> None:
    assert shortened("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS
    assert len(shortened("x" * 5000)) == MOST_CHARACTERS
