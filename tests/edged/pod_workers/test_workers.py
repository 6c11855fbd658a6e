"""Which worker has which pod: few workers for starting pods, an own one for each ending pod."""

from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

import pykka
import pytest
from msgspec.structs import replace

from beehive import Timer
from beehive.simulation import Simulation
from edged.pod_workers.job import Done, Job, Queue, Work
from edged.pod_workers.workers import REMOVALS, PodWorkers, Worker
from edged.pods.model import PodRef, PodState, PodUid


class Hand:
    """A worker that remembers what it was given."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.stopped = False

    def tell(self, job: Job) -> None:
        """Take a job."""
        self.jobs.append(job)

    def stop(self, *, block: bool = True) -> None:
        """Be dismissed."""
        assert not block
        self.stopped = True


class Yard:
    """Two workers that pods share; pods named `none…` have nothing to be done."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        clock = self.simulation.clock
        self.started: list[Hand] = []
        """The workers of pods that end."""
        self.hands: list[Hand] = []
        self.going: list[str] = []
        """Uids of the jobs of pods that end or are removed, in their order."""
        self.fired: list[float] = []
        """Seconds of the timers that have come."""
        self.context = Mock(clock=clock, after=self._after, start_actor=self._start_actor)
        self.pool = PodWorkers(self.context, Mock(), Mock(), self.job_of)
        self.pool.start(2)

    def given(self) -> list[str]:
        """Uids of the jobs that the standing workers got, sorted."""
        return sorted(job.ref.uid for hand in self.hands for job in hand.jobs)

    def done(self, uid: str) -> None:
        """A worker has finished."""
        self.pool.complete_work(Done(Job(PodState.SYNC, PodRef(PodUid(uid), "d", uid))))

    def job_of(self, work: Work) -> Job | None:
        """The next job of a pod."""
        if work.queue is not Queue.ADDITION:
            self.going.append(work.uid)
        task = PodState.TERMINATING if work.queue is Queue.DELETION else PodState.SYNC
        return None if work.uid.startswith("none") else Job(task, PodRef(work.uid, "d", work.uid))

    def _after(self, seconds: float, function: Callable[[], None]) -> Timer:
        def fire() -> None:
            self.fired.append(seconds)
            function()

        return self.simulation.clock.after(seconds, fire)

    def _start_actor(self, *_args: object, name: str) -> pykka.ActorRef[Any]:
        hand = Hand()
        (self.started if name == "edged/terminating" else self.hands).append(hand)
        return cast("pykka.ActorRef[Any]", hand)


@pytest.fixture
def yard() -> Yard:
    return Yard()


def add(yard: Yard, *uids: str, queue: Queue = Queue.ADDITION) -> None:
    for uid in uids:
        yard.pool.add(PodUid(uid), queue)


def test_as_many_pods_as_workers_are_worked_on_and_the_next_waits(yard: Yard) -> None:
    add(yard, "a", "b", "c")
    assert yard.given() == ["a", "b"]
    yard.done("a")
    assert yard.given() == ["a", "b", "c"]


def test_a_pod_that_is_worked_on_and_asked_for_again_has_its_next_turn_after_this_one(yard: Yard) -> None:
    add(yard, "a", "a", "a")
    assert yard.given() == ["a"]
    yard.done("a")
    assert yard.given() == ["a", "a"]
    yard.done("a")
    assert yard.given() == ["a", "a"]


def test_each_pod_that_goes_has_a_worker_of_its_own(yard: Yard) -> None:
    add(yard, "a", "b")
    add(yard, "x", "y", "z", queue=Queue.DELETION)
    assert [hand.jobs[0].ref.uid for hand in yard.started] == ["x", "y", "z"]
    yard.done("y")
    assert yard.given() == ["a", "b"]


def test_some_of_those_workers_are_kept_for_the_next_pods_and_the_others_dismissed(yard: Yard) -> None:
    names = [f"x{number}" for number in range(6)]
    add(yard, *names, queue=Queue.DELETION)
    for name in names:
        yard.done(name)
    assert [hand.stopped for hand in yard.started] == [False] * 4 + [True] * 2
    add(yard, "y", queue=Queue.DELETION)
    assert len(yard.started) == 6


def test_the_worker_of_a_pod_that_has_ended_and_comes_again_is_free_after_it(yard: Yard) -> None:
    add(yard, "x", queue=Queue.DELETION)
    yard.done("x")
    for number in range(3):
        add(yard, "x")
        yard.done("x")
        assert len(yard.given()) == number + 1
    assert not [name for name in ("_busy", "_terminating") if getattr(yard.pool, name)]
    assert not yard.started[0].stopped


def test_few_pods_are_removed_at_one_time(yard: Yard) -> None:
    """The next pod is removed after one is; ending and starting pods do not wait for removals."""
    names = [f"x{number}" for number in range(REMOVALS + 2)]
    add(yard, *names, queue=Queue.REMOVAL)
    assert yard.going == names[:REMOVALS]
    add(yard, "ends", queue=Queue.DELETION)
    add(yard, "comes")
    assert (yard.going, yard.given()) == ([*names[:REMOVALS], "ends"], ["comes"])
    yard.done(names[1])
    assert yard.going == [*names[:REMOVALS], "ends", names[REMOVALS]]


def test_removals_that_hang_do_not_keep_others_waiting(yard: Yard) -> None:
    """After five seconds they do not count, and when they end later, nothing is counted twice."""
    names = [f"x{number}" for number in range(2 * REMOVALS + 1)]
    add(yard, *names, queue=Queue.REMOVAL)
    yard.simulation.run_for(4.9)
    assert yard.going == names[:REMOVALS]
    yard.simulation.run_for(0.2)
    assert yard.going == names[: 2 * REMOVALS]
    yard.done(names[0])
    assert yard.going == names[: 2 * REMOVALS]
    yard.done(names[REMOVALS])
    assert yard.going == names


def test_each_removal_that_hangs_is_left_behind_in_its_turn(yard: Yard) -> None:
    names = [f"x{number}" for number in range(4 * REMOVALS)]
    add(yard, *names, queue=Queue.REMOVAL)
    yard.simulation.run_for(16.0)
    assert yard.going == names


def test_a_deletion_of_a_pod_that_is_worked_on_waits_for_that(yard: Yard) -> None:
    add(yard, "a")
    add(yard, "a", queue=Queue.DELETION)
    assert yard.started == []
    yard.done("a")
    assert [hand.jobs[0].state for hand in yard.started] == [PodState.TERMINATING]


def test_a_pod_without_work_takes_no_worker(yard: Yard) -> None:
    add(yard, "none", "none-2", "a", "b")
    assert yard.given() == ["a", "b"]
    add(yard, "none", queue=Queue.DELETION)
    assert yard.started == []
    assert not yard.pool.is_working(PodUid("none"))
    assert not yard.pool.is_working(PodUid("none-2")), "it may have work later"


def test_the_first_removal_that_hangs_lets_the_next_one_begin(yard: Yard) -> None:
    """The time of the earliest counts: the others have more of it left."""
    for name in ("a", "b", "c"):
        add(yard, name, queue=Queue.REMOVAL)
        if name != "c":
            yard.simulation.run_for(2.0)
    yard.simulation.run_for(1.5)
    assert yard.going == ["a", "b", "c"]


def test_a_delayed_pod_comes_when_it_is_due_and_the_earliest_wish_counts(yard: Yard) -> None:
    for seconds in (30.0, 10.0, 20.0):
        yard.pool.add_after(PodUid("a"), Queue.ADDITION, seconds)
    yard.simulation.run_for(9.9)
    assert yard.given() == []
    yard.simulation.run_for(0.2)
    assert yard.given() == ["a"]
    yard.done("a")
    yard.simulation.run_for(60)
    assert yard.given() == ["a"]


def test_a_forgotten_pod_does_not_come(yard: Yard) -> None:
    yard.pool.add_after(PodUid("a"), Queue.ADDITION, 1.0)
    yard.pool.forget_pod(PodUid("a"))
    yard.simulation.run_for(5)
    assert yard.given() == []


def test_a_delay_that_has_passed_is_zero(yard: Yard) -> None:
    yard.pool.add_after(PodUid("a"), Queue.ADDITION, -5.0)
    yard.simulation.run_for(0.0)
    yard.simulation.run_until_idle()
    assert yard.given() == ["a"]


def test_figures_are_current(yard: Yard) -> None:
    """A copy: a reader on another thread is not surprised by what happens next."""
    add(yard, "a", "b", "c")
    yard.pool.add_after(PodUid("later"), Queue.ADDITION, 5)
    figures = yard.pool.figures(frozenset({PodUid("later")}))
    assert (figures.waiting, figures.working, figures.failed) == (1, 2, frozenset({PodUid("later")}))
    assert figures.due == {"later": yard.simulation.clock.monotonic() + 5}
    yard.pool.forget_pod(PodUid("later"))
    assert "later" in figures.due


def test_a_delayed_pod_comes_when_it_is_due_whatever_was_armed_before(yard: Yard) -> None:
    for uid, seconds in (("late", 30.0), ("soon", 10.0), ("same", 10.0)):
        yard.pool.add_after(PodUid(uid), Queue.DELETION, seconds)
    came = {}
    for second in range(1, 32):
        yard.simulation.run_for(1.0)
        came[second] = list(yard.going)
    assert (came[9], came[10], came[29], came[30]) == ([], ["soon", "same"], ["soon", "same"], ["soon", "same", "late"])


def test_a_timer_that_an_earlier_one_replaces_does_not_come(yard: Yard) -> None:
    yard.pool.add_after(PodUid("a"), Queue.DELETION, 30.0)
    yard.pool.add_after(PodUid("b"), Queue.DELETION, 10.0)
    yard.pool.forget_pod(PodUid("a"))
    yard.simulation.run_for(60.0)
    assert (yard.going, yard.fired) == (["b"], [10.0])


def test_pods_that_waited_before_there_were_workers_are_given_to_them(yard: Yard) -> None:
    pool = PodWorkers(yard.context, Mock(), Mock(), yard.job_of)
    pool.add(PodUid("a"), Queue.ADDITION)
    pool.start(1)
    assert yard.given() == ["a"]


def test_no_timer_waits_for_removals_that_nobody_waits_for(yard: Yard) -> None:
    add(yard, *(f"x{number}" for number in range(REMOVALS)), queue=Queue.REMOVAL)
    add(yard, "ends", queue=Queue.DELETION)
    yard.simulation.run_for(60.0)
    assert yard.fired == []


def test_a_worker_posts_what_it_did() -> None:
    results, syncer, simulation = Mock(), Mock(), Simulation(1)
    done = Done(Job(PodState.SYNC, PodRef(PodUid("u"), "d", "web")))
    syncer.sync.return_value = done
    worker = simulation.start(Worker, syncer, results, name="worker").ref
    worker.tell("nothing that it knows")
    worker.tell(done.job)
    simulation.run_for(1.0)
    syncer.sync.assert_called_once_with(done.job)
    results.post.assert_called_once_with(replace(done, begun=0.0))
    assert (done.pending, done.terminated, done.unchanged) == (False, False, False)
    simulation.close()
