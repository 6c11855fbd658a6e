"""Events as hints: any number in any order makes one look at the pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.pleg.hints import MIN_INTERVAL, Hints
from edged.pleg.messages import WorkerInspection
from edged.pods import labels
from edged.pods.model import PodFacts, PodRef, PodUid
from protos.cri.v1 import api_pb2 as cri

CREATED, STARTED, STOPPED, DELETED = (
    cri.CONTAINER_CREATED_EVENT,
    cri.CONTAINER_STARTED_EVENT,
    cri.CONTAINER_STOPPED_EVENT,
    cri.CONTAINER_DELETED_EVENT,
)
NEVER = float("-inf")
PATIENCE = 1.0


def event(kind: cri.ContainerEventType.ValueType, pod: str = "a") -> cri.ContainerEventResponse:
    """An event of a pod; of nobody knows which when it has no name."""
    made = cri.ContainerEventResponse(container_id="c", container_event_type=kind)
    if pod:
        marks = {labels.POD_UID: pod, labels.POD_NAMESPACE: "default", labels.POD_NAME: pod}
        made.pod_sandbox_status.labels.update(marks)
    return made


def names(refs: list[PodRef]) -> list[str]:
    return [ref.name for ref in refs]


@pytest.mark.parametrize(
    ("kind", "wait"), [(STOPPED, 0.0), (CREATED, PATIENCE), (STARTED, PATIENCE), (DELETED, PATIENCE)]
)
def test_only_an_end_is_urgent(kind: cri.ContainerEventType.ValueType, wait: float) -> None:
    hints = Hints(PATIENCE)
    assert hints.add_event(event(kind), 5.0)
    assert hints.due(NEVER) == 5.0 + wait


@pytest.mark.parametrize("looks", [False, True])
def test_an_end_in_a_pod_that_is_being_ended_is_its_workers_to_see(*, looks: bool) -> None:
    """The worker that stops a container reads the pod after it. One that stops another for long does not yet."""
    hints = Hints(PATIENCE, lambda uid: uid == "a")
    assert hints.add_event(event(STOPPED), 5.0), "the PLEG sets its timer"
    if looks:
        hints.add_inspection(WorkerInspection(PodFacts(PodRef(PodUid("a"), "default", "a")), "me", 5.5))
    assert hints.due(NEVER) == (None if looks else 5.0 + PATIENCE)
    assert hints.add_event(event(STOPPED, "b"), 6.0), "another pod's end is urgent"


def test_an_end_after_something_else_is_news_and_what_follows_it_is_not() -> None:
    hints = Hints(PATIENCE)
    heard = [hints.add_event(event(kind), at) for at, kind in enumerate([STARTED, STARTED, STOPPED, STOPPED, DELETED])]
    assert heard == [True, False, True, False, False]
    assert hints.due(NEVER) == 0.0


@pytest.mark.parametrize("first", ["a", ""])
def test_the_pleg_is_woken_once_for_events_of_many_pods(first: str) -> None:
    """It has a time for the first of them, and then inspects all; only an end is news."""
    hints = Hints(PATIENCE)
    heard = [hints.add_event(event(CREATED, pod), at) for at, pod in enumerate([first, "b", "c", "d"])]
    assert heard == [True, False, False, False]
    assert hints.add_event(event(STOPPED, "e"), 0.5)
    assert names(hints.drain()[0]) == [*filter(None, [first]), "b", "c", "d", "e"]
    assert hints.add_event(event(CREATED, "f"), 9.0), "the others have been taken"


def test_the_first_hint_that_is_due_decides() -> None:
    hints = Hints(PATIENCE)
    for at, pod in ((1.0, "a"), (1.5, "b"), (1.9, "")):
        hints.add_event(event(STARTED, pod), at)
    assert hints.due(NEVER) == 2.0
    hints.add_event(event(STOPPED, "c"), 1.95)
    assert hints.due(NEVER) == 1.95


def test_rounds_are_apart_however_many_events_come() -> None:
    hints = Hints(PATIENCE)
    hints.add_event(event(STOPPED), 5.0)
    assert hints.due(last_inspection=4.99) == 4.99 + MIN_INTERVAL


def test_hints_that_were_taken_are_no_longer_due() -> None:
    hints = Hints(PATIENCE)
    hints.add_event(event(STOPPED, "b"), 1.0)
    hints.add_event(event(STARTED, "a"), 2.0)
    refs, everything = hints.drain()
    assert (names(refs), everything) == (["b", "a"], False)
    assert (hints.due(NEVER), hints.drain()) == (None, ([], False))


def test_an_event_that_names_no_pod_asks_for_everything() -> None:
    hints = Hints(PATIENCE)
    assert hints.add_event(event(DELETED, ""), 1.0)
    assert not hints.add_event(event(DELETED, ""), 1.5)
    assert hints.due(NEVER) == 1.0 + PATIENCE
    assert hints.drain() == ([], True)


def test_an_event_of_something_other_than_a_pod_is_ignored() -> None:
    hints = Hints(PATIENCE)
    stray = cri.ContainerEventResponse(container_id="c", container_event_type=STOPPED)
    stray.pod_sandbox_status.id = "s"
    assert not hints.add_event(stray, 1.0)
    assert hints.due(NEVER) is None


@pytest.mark.parametrize(
    ("kind", "looked_at", "left"), [(STOPPED, 4.0, ["a"]), (STOPPED, 5.0, []), (STARTED, 4.0, []), (STARTED, 5.0, [])]
)
def test_a_worker_that_is_done_has_seen_all_but_a_later_end(
    kind: cri.ContainerEventType.ValueType, looked_at: float, left: list[str]
) -> None:
    hints = Hints(PATIENCE)
    hints.add_event(event(kind), 5.0)
    saw = WorkerInspection(PodFacts(PodRef(PodUid("a"), "default", "a")), "me", looked_at)
    hints.add_inspection(saw)
    assert hints.drain_inspections() == [saw]
    assert hints.drain_inspections() == []
    assert names(hints.drain()[0]) == left


def test_announced_pods_are_kept_until_they_are_taken() -> None:
    hints = Hints(PATIENCE)
    hints.add_event(event(STARTED, "a"), 1.0)
    hints.drain()
    announced = hints.drain_announced()
    assert (announced.names(PodUid("a")), announced.names(PodUid("b"))) == (True, False)
    assert not hints.drain_announced().names(PodUid("a"))
    hints.add_event(event(DELETED, ""), 2.0)
    assert hints.drain_announced().names(PodUid("b"))
    assert not hints.drain_announced().names(PodUid("b"))


@given(st.lists(st.tuples(st.sampled_from([CREATED, STARTED, STOPPED, DELETED]), st.sampled_from("abc")), max_size=60))
def test_each_named_pod_is_inspected_once(spoken: list[tuple[cri.ContainerEventType.ValueType, str]]) -> None:
    hints = Hints(PATIENCE)
    for at, (kind, pod) in enumerate(spoken):
        hints.add_event(event(kind, pod), float(at))
    urgent = any(kind == STOPPED for kind, _ in spoken)
    due = hints.due(NEVER)
    assert (due is not None) == bool(spoken)
    assert due is None or urgent or due >= PATIENCE
    assert sorted(names(hints.drain()[0])) == sorted({pod for _, pod in spoken})
