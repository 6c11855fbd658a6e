"""Gives the queues' pods to workers. Lives on the edged module's thread.

Pods that come share a few workers: starting them is work, and more at once only makes each slower. A pod that goes, or
of which something is to be stopped, mostly waits for a grace period to be over, so it gets a worker of its own for that
time: however many pods take their time to end, none waits for another, and none keeps a pod from coming (a kubelet has
a goroutine for each pod).
"""

from collections.abc import Callable
from typing import Any

import pykka

from beehive import Clock, Timer
from edged.pods.model import PodUid
from edged.work.job import Done, Job
from edged.work.queues import Queue, Work, WorkQueues

Worker = pykka.ActorRef[Any]

_SPARE = 4
"""Hired workers that are kept for the next pods that go; a pod that goes needs one twice."""


class Pool:
    """The queues and the workers.

    Args:
        clock: for delays.
        after: makes a timer that fires in the module's own turn.
        job_of: makes the job for a pod whose turn it is; None when there is nothing to do after all.
        hire: makes a worker for a pod that goes.
    """

    def __init__(
        self,
        clock: Clock,
        after: Callable[[float, Callable[[], None]], Timer],
        job_of: Callable[[Work], Job | None],
        hire: Callable[[], Worker],
    ) -> None:
        self._clock = clock
        self._after = after
        self._job_of = job_of
        self._hire = hire
        self._queues = WorkQueues()
        self._idle: list[Worker] = []
        self._busy: dict[PodUid, Worker] = {}
        self._hired: dict[PodUid, Worker] = {}
        self._spare: list[Worker] = []
        self._timer: Timer | None = None
        self._timer_due = float("inf")

    def add_worker(self, worker: Worker) -> None:
        """Take a worker for pods that come into the pool."""
        self._idle.append(worker)
        self._dispatch()

    def add(self, uid: PodUid, queue: Queue) -> None:
        """A pod wants to be worked on."""
        self._queues.add(uid, queue)
        self._dispatch()

    def add_after(self, uid: PodUid, queue: Queue, seconds: float) -> None:
        """A pod wants to be worked on, but not yet."""
        self._queues.add_at(uid, queue, self._clock.monotonic() + max(0.0, seconds))
        self._arm()

    def done(self, done: Done) -> None:
        """A worker has finished."""
        uid = done.job.ref.uid
        if uid in self._hired:
            self._let_go(self._hired.pop(uid))
        else:
            self._idle.append(self._busy.pop(uid))
        self._queues.done(uid)
        self._dispatch()

    def forget(self, uid: PodUid) -> None:
        """A pod is gone."""
        self._queues.forget(uid)

    def working(self, uid: PodUid) -> bool:
        """Whether a worker has the pod now."""
        return self._queues.working(uid)

    def depth(self) -> int:
        """How many pods wait for a worker."""
        return len(self._queues)

    def _dispatch(self) -> None:
        while (work := self._queues.take(Queue.DELETION)) is not None:
            job = self._job(work)
            if job is not None:
                worker = self._hired[work.uid] = self._spare.pop() if self._spare else self._hire()
                worker.tell(job)
        while self._idle and (work := self._queues.take(Queue.ADDITION)) is not None:
            job = self._job(work)
            if job is not None:
                worker = self._busy[work.uid] = self._idle.pop()
                worker.tell(job)

    def _let_go(self, worker: Worker) -> None:
        if len(self._spare) < _SPARE:
            self._spare.append(worker)
        else:
            worker.stop(block=False)

    def _job(self, work: Work) -> Job | None:
        job = self._job_of(work)
        if job is None:
            self._queues.done(work.uid)
        return job

    def _arm(self) -> None:
        due = self._queues.next_due()
        if due is None or due >= self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._after(due - self._clock.monotonic(), self._release)

    def _release(self) -> None:
        self._timer, self._timer_due = None, float("inf")
        self._queues.release(self._clock.monotonic())
        self._dispatch()
        self._arm()
