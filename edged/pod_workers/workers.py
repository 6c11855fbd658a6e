"""PodWorkers: the queues of pods, and the workers that carry out their jobs, one job of a pod at a time."""

import heapq
import logging
from collections.abc import Callable
from typing import Protocol

import pykka
from msgspec.structs import replace

from beehive import Actor, ModuleContext, Timer
from edged.pod_workers.job import Done, Job, Queue, Work
from edged.pods.model import PodUid, WorkFigures
from edged.sync_events import SyncEvents

_log = logging.getLogger(__name__)

REMOVALS = 2
"""Pods that are removed at one time."""

_OVERDUE_SECONDS = 5.0
"""After which a removal, which may hang in a volume, no longer keeps others waiting."""

_SPARE = 4
"""Terminating workers that are kept for the next pods that end: a pod that ends needs one twice."""


class WorkQueue:
    """The queues of pods. A pod is never on two workers at the same time.

    As in a kubelet's work queues: a pod that waits is not queued twice; a pod that is added while
    a worker has it is queued again when the worker is done; a delayed pod keeps its earliest time. A deletion or a
    removal overrides an addition of the same pod. A data structure without effects.
    """

    def __init__(self) -> None:
        self._waiting: dict[PodUid, Queue] = {}
        self._working: set[PodUid] = set()
        self._again: dict[PodUid, Queue] = {}
        self._delayed: list[tuple[float, int, PodUid, Queue]] = []
        self._due: dict[PodUid, float] = {}
        self._order = 0

    def add(self, uid: PodUid, queue: Queue) -> None:
        """Add a pod at the end of a queue, or after the worker that has it now."""
        self._due.pop(uid, None)
        target = self._again if uid in self._working else self._waiting
        if target.get(uid) in (None, Queue.ADDITION):
            target[uid] = queue

    def add_at(self, uid: PodUid, queue: Queue, due: float) -> None:
        """Add a pod at a time in monotonic seconds, unless it is added earlier anyway."""
        if uid in self._waiting or self._due.get(uid, float("inf")) <= due:
            return
        self._order += 1
        self._due[uid] = due
        heapq.heappush(self._delayed, (due, self._order, uid, queue))

    def pop(self, *queues: Queue) -> Work | None:
        """Take the next pod out of these queues (out of all by default): deletions first, each in its order."""
        for chosen in queues or (Queue.DELETION, Queue.ADDITION, Queue.REMOVAL):
            for uid, queue in self._waiting.items():
                if queue is chosen:
                    del self._waiting[uid]
                    self._working.add(uid)
                    return Work(uid, queue)
        return None

    def waits(self, queue: Queue) -> bool:
        """Return whether a pod is in a queue."""
        return queue in self._waiting.values()

    def done(self, uid: PodUid) -> None:
        """Note that a worker has finished with a pod."""
        self._working.discard(uid)
        again = self._again.pop(uid, None)
        if again is not None:
            self.add(uid, again)

    def forget(self, uid: PodUid) -> None:
        """Drop a pod from all queues. A worker that has it now goes on."""
        self._waiting.pop(uid, None)
        self._again.pop(uid, None)
        self._due.pop(uid, None)

    def release(self, now: float) -> None:
        """Queue the delayed pods that are due at `now` (monotonic seconds)."""
        while self._delayed and self._delayed[0][0] <= now:
            due, _, uid, queue = heapq.heappop(self._delayed)
            if self._due.get(uid) == due:
                self.add(uid, queue)

    def next_due(self) -> float | None:
        """Return when the next delayed pod is due, in monotonic seconds; None when none is delayed."""
        while self._delayed and self._due.get(self._delayed[0][2]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    def working(self, uid: PodUid) -> bool:
        """Return whether a worker has the pod."""
        return uid in self._working

    def number_working(self) -> int:
        """Return the number of pods that workers have."""
        return len(self._working)

    def due(self) -> dict[PodUid, float]:
        """Return a copy of the due times of delayed pods, in monotonic seconds; any thread."""
        return self._due.copy()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)


class Syncer(Protocol):
    """A syncer that carries out jobs (`PodSyncer`)."""

    def sync(self, job: Job) -> Done:
        """Carry out a job; block until it is done. Errors that concern the pod are part of the result."""


class Worker(Actor):
    """An actor that carries out jobs on a thread of its own.

    Args:
        syncer: carries out a job.
        results: take the result.
    """

    def __init__(self, syncer: Syncer, results: SyncEvents[Done]) -> None:
        super().__init__()
        self._syncer = syncer
        self._results = results

    def on_receive(self, message: object) -> None:
        """Carry out a job."""
        if isinstance(message, Job):
            begin = self.clock.monotonic()
            done = self._syncer.sync(message)
            seconds = self.clock.monotonic() - begin
            _log.debug("%s of pod %s took %.3f s", message.state.value, message.ref, seconds)
            self._results.post(replace(done, begun=begin))


class PodWorkers:
    """The queue of pods, which gives their jobs to workers (kubelet's podWorkers).

    Added pods share a few workers: a start needs the processor, and more parallel starts only slow each other down. A
    pod that ends, or whose containers are stopped, mostly waits for a grace period, so it gets a worker of its own for
    that time: no ending pod waits for another, and none delays an added pod (a kubelet has a goroutine for each pod).
    The removal of its remains needs the processor again, and is done for a few pods at a time: twenty in parallel took
    a third more processor time, and delayed pods that started meanwhile. Lives on the edged module's thread.

    Args:
        context: the module.
        syncer: carries out the jobs, on the workers' threads.
        results: take the results; `complete_work` follows when the pod is queued again.
        next_job: returns the job of a pod for a worker that is free; None when nothing is left to do.
    """

    def __init__(
        self,
        context: ModuleContext,
        syncer: Syncer,
        results: SyncEvents[Done],
        next_job: Callable[[Work], Job | None],
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._syncer = syncer
        self._results = results
        self._next_job = next_job
        self._queues = WorkQueue()
        self._idle: list[pykka.ActorRef[Worker]] = []
        self._busy: dict[PodUid, pykka.ActorRef[Worker]] = {}
        self._terminating: dict[PodUid, pykka.ActorRef[Worker]] = {}
        self._spare: list[pykka.ActorRef[Worker]] = []
        self._removing: dict[PodUid, float] = {}
        """When the removals began, in monotonic seconds."""
        self._overdue: Timer | None = None
        self._timer: Timer | None = None
        self._timer_due = float("inf")

    def start(self, workers: int) -> None:
        """Start the workers that added pods share."""
        for number in range(workers):
            self._idle.append(self._start_worker(f"edged/worker-{number}"))
            self._dispatch()

    def add(self, uid: PodUid, queue: Queue) -> None:
        """Queue a pod."""
        self._queues.add(uid, queue)
        self._dispatch()

    def add_after(self, uid: PodUid, queue: Queue, seconds: float) -> None:
        """Queue a pod when so many seconds have passed."""
        self._queues.add_at(uid, queue, self._clock.monotonic() + max(0.0, seconds))
        self._arm()

    def complete_work(self, done: Done) -> None:
        """Free the worker of a job, and give out the next jobs."""
        uid = done.job.ref.uid
        self._removing.pop(uid, None)
        if uid in self._terminating:
            self._keep_or_stop(self._terminating.pop(uid))
        else:
            self._idle.append(self._busy.pop(uid))
        self._queues.done(uid)
        self._dispatch()

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod from the queues. A worker that has it now goes on."""
        self._queues.forget(uid)

    def is_working(self, uid: PodUid) -> bool:
        """Return whether a worker has the pod now."""
        return self._queues.working(uid)

    def figures(self, failed: frozenset[PodUid]) -> WorkFigures:
        """Return the figures of the queues, with the pods whose last sync failed; any thread."""
        return WorkFigures(len(self._queues), self._queues.number_working(), self._queues.due(), failed)

    def _dispatch(self) -> None:
        while (work := self._queues.pop(Queue.DELETION) or self._next_removal()) is not None:
            job = self._next_job(work)
            if job is None:
                self._queues.done(work.uid)
            else:
                if work.queue is Queue.REMOVAL:
                    self._removing[work.uid] = self._clock.monotonic()
                worker = self._spare.pop() if self._spare else self._start_worker("edged/terminating")
                self._terminating[work.uid] = worker
                worker.tell(job)
        while self._idle and (work := self._queues.pop(Queue.ADDITION)) is not None:
            job = self._next_job(work)
            if job is None:
                self._queues.done(work.uid)
            else:
                worker = self._busy[work.uid] = self._idle.pop()
                worker.tell(job)

    def _start_worker(self, name: str) -> pykka.ActorRef[Worker]:
        return self._context.start_actor(Worker, self._syncer, self._results, name=name)

    def _next_removal(self) -> Work | None:
        """Return the next pod that is to be removed, or arm a timer if too many are."""
        now = self._clock.monotonic()
        due = [began + _OVERDUE_SECONDS for began in self._removing.values() if began + _OVERDUE_SECONDS > now]
        if len(due) < REMOVALS:
            return self._queues.pop(Queue.REMOVAL)
        if self._overdue is None and self._queues.waits(Queue.REMOVAL):
            self._overdue = self._context.after(min(due) - now, self._dispatch_overdue)
        return None

    def _dispatch_overdue(self) -> None:
        self._overdue = None
        self._dispatch()

    def _keep_or_stop(self, worker: pykka.ActorRef[Worker]) -> None:
        if len(self._spare) < _SPARE:
            self._spare.append(worker)
        else:
            worker.stop(block=False)

    def _arm(self) -> None:
        due = self._queues.next_due()
        if due is None or due >= self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._context.after(due - self._clock.monotonic(), self._release)

    def _release(self) -> None:
        self._timer, self._timer_due = None, float("inf")
        self._queues.release(self._clock.monotonic())
        self._dispatch()
        self._arm()
