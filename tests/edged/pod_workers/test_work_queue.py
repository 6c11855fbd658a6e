"""The queues of pods: waiting, worked on, and due."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edged.pod_workers.job import Queue, Work
from edged.pod_workers.workers import WorkQueue
from edged.pods.model import PodUid

A, B = PodUid("a"), PodUid("b")


def drain(queues: WorkQueue) -> Iterator[Work]:
    while (work := queues.pop()) is not None:
        yield work


def test_a_pod_that_waits_is_not_queued_twice() -> None:
    queues = WorkQueue()
    queues.add(A, Queue.ADDITION)
    queues.add(A, Queue.ADDITION)
    assert list(drain(queues)) == [Work(A, Queue.ADDITION)]


def test_deletions_come_first_and_each_queue_keeps_its_order() -> None:
    queues = WorkQueue()
    for uid, queue in ((A, Queue.ADDITION), (B, Queue.ADDITION), (PodUid("c"), Queue.DELETION)):
        queues.add(uid, queue)
    assert [work.uid for work in drain(queues)] == ["c", "a", "b"]


def test_a_deletion_overrides_an_addition_and_not_the_reverse() -> None:
    queues = WorkQueue()
    queues.add(A, Queue.ADDITION)
    queues.add(A, Queue.DELETION)
    queues.add(A, Queue.ADDITION)
    assert list(drain(queues)) == [Work(A, Queue.DELETION)]


def test_a_pod_that_is_worked_on_is_queued_again_only_when_its_worker_is_done() -> None:
    queues = WorkQueue()
    queues.add(A, Queue.ADDITION)
    assert queues.pop() == Work(A, Queue.ADDITION)
    queues.add(A, Queue.ADDITION)
    assert queues.pop() is None
    queues.done(A)
    assert queues.pop() == Work(A, Queue.ADDITION)


def test_of_several_delays_the_earliest_stands() -> None:
    queues = WorkQueue()
    queues.add_at(A, Queue.ADDITION, 10.0)
    queues.add_at(A, Queue.ADDITION, 5.0)
    queues.add_at(A, Queue.ADDITION, 20.0)
    assert queues.next_due() == 5.0
    queues.release(4.9)
    assert queues.pop() is None
    queues.release(5.0)
    assert queues.pop() == Work(A, Queue.ADDITION)
    queues.done(A)
    queues.release(30.0)
    assert queues.pop() is None


def test_an_immediate_wish_cancels_the_delay() -> None:
    queues = WorkQueue()
    queues.add_at(A, Queue.ADDITION, 5.0)
    queues.add(A, Queue.ADDITION)
    assert queues.next_due() is None
    assert list(drain(queues)) == [Work(A, Queue.ADDITION)]


def test_a_pod_that_waits_needs_no_delay() -> None:
    """Its sync decides anew when it is to come again."""
    queues = WorkQueue()
    queues.add(A, Queue.ADDITION)
    queues.add_at(A, Queue.ADDITION, 5.0)
    assert queues.next_due() is None


def test_a_delay_that_was_replaced_releases_nothing() -> None:
    queues = WorkQueue()
    queues.add_at(A, Queue.ADDITION, 5.0)
    queues.add(A, Queue.ADDITION)
    assert list(drain(queues)) == [Work(A, Queue.ADDITION)]
    queues.done(A)
    queues.add_at(A, Queue.ADDITION, 30.0)
    queues.release(6.0)
    assert queues.pop() is None
    assert queues.next_due() == 30.0


def test_a_forgotten_pod_comes_no_more_after_its_worker() -> None:
    queues = WorkQueue()
    queues.add(A, Queue.ADDITION)
    queues.pop()
    queues.add(A, Queue.ADDITION)
    queues.forget(A)
    queues.done(A)
    assert queues.pop() is None


def test_a_forgotten_pod_comes_no_more() -> None:
    queues = WorkQueue()
    queues.add(A, Queue.ADDITION)
    queues.add_at(B, Queue.ADDITION, 1.0)
    queues.forget(A)
    queues.forget(B)
    queues.release(2.0)
    assert queues.pop() is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100))))
def test_next_due_is_never_later_than_any_open_delay(wishes: list[tuple[str, float]]) -> None:
    queues = WorkQueue()
    for name, due in wishes:
        queues.add_at(PodUid(name), Queue.ADDITION, due)
    expected = min((due for _, due in wishes), default=None)
    assert queues.next_due() == expected


class Life(RuleBasedStateMachine):
    """Any order of calls keeps the rule: no two workers have one pod at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = WorkQueue()
        self.working: set[PodUid] = set()
        self.wanted: set[PodUid] = set()

    @rule(name=st.sampled_from("abcd"), queue=st.sampled_from(Queue))
    def add(self, name: str, queue: Queue) -> None:
        self.queues.add(PodUid(name), queue)
        self.wanted.add(PodUid(name))

    @rule()
    def take(self) -> None:
        work = self.queues.pop()
        if work is None:
            assert not self.wanted - self.working
            return
        assert work.uid not in self.working
        self.working.add(work.uid)
        self.wanted.discard(work.uid)

    @precondition(lambda self: bool(self.working))
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.working)))
        self.working.discard(uid)
        self.queues.done(uid)

    @invariant()
    def nothing_wanted_is_lost(self) -> None:
        assert len(self.queues) == len(self.wanted)


TestLife = pytest.mark.filterwarnings("default")(Life.TestCase)


def test_pods_that_are_due_at_the_same_time_keep_their_order() -> None:
    queues = WorkQueue()
    for uid in (B, A):
        queues.add_at(uid, Queue.ADDITION, 5.0)
    queues.release(5.0)
    assert [work.uid for work in drain(queues)] == [B, A]
