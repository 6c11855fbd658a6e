"""Whose turn it is: gives pods to workers, takes what came of it, and says when a pod is looked at again.

A pod that is wanted otherwise, of which something was seen, or whose time has come gets a turn; what a turn does is
`edged.work`'s. Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from beehive import Clock, Timer
from edged.api import Nanoseconds, seconds
from edged.events.pods import PodEvents
from edged.lifecycle.lives import Lives
from edged.orphans import Orphans
from edged.pods.actions import ContainerWait, PodActions, compute_pod_actions
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import PodRef, PodUid, with_exchanged
from edged.pods.phase import Phase
from edged.pods.status import crash_loop
from edged.pods.termination import grace_seconds
from edged.pods.verdict import Verdict
from edged.probes.manager import ProbeManager
from edged.report.pods import PodReporter
from edged.settings import EdgedSettings
from edged.statuses import Statuses
from edged.work.errors import StartError
from edged.work.job import Done, Job, Task
from edged.work.pool import Pool, Worker
from edged.work.queues import Queue, Work
from edged.work.retries import Retries

_log = logging.getLogger(__name__)

MOST_ROUNDS = 20
"""Turns that a pod may have one right after the other: init containers that end at once need one each."""


class Turns(Protocol):
    """The module on whose thread this lives."""

    @property
    def clock(self) -> Clock:
        """Time and randomness."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class Pods(Protocol):
    """What the keeper knows of its pods, beside what it keeps."""

    pods: PodManager
    orphans: Orphans
    probes: ProbeManager
    statuses: Statuses

    def gone(self, record: PodRecord | None, uid: PodUid) -> None:
        """Nothing of a pod is left on the node."""

    def end(self, uid: PodUid, verdict: Verdict) -> bool:
        """The node itself ends a pod for good."""


class Rounds:
    """See the module's docstring.

    Args:
        turns: the module.
        settings: edged's.
        keeper: of the pods.
        reporter: is told of pods that have ended as the cloud wanted.
        hire: makes a worker for a pod that goes.
        lives: hooks and grace periods of containers; ended sooner when their pod is to end.
        events: is told of containers that wait.
    """

    def __init__(
        self,
        turns: Turns,
        settings: EdgedSettings,
        keeper: Pods,
        reporter: PodReporter,
        hire: Callable[[], Worker],
        *,
        lives: Lives,
        events: PodEvents,
    ) -> None:
        self._clock = turns.clock
        self._settings = settings
        self._keeper = keeper
        self._reporter = reporter
        self._lives = lives
        self._events = events
        self.backoffs = BackOffs(BackOffPolicy.up_to(seconds(settings.crash_loop_limit)))
        self.pool = Pool(turns.clock, turns.after, self._job_of, hire)
        self._retries = Retries()

    def want(self, record: PodRecord) -> None:
        """A pod has to be looked at. A turn that stops something that runs may take its grace period: it gets a worker
        of its own, as the turns of a pod that goes do.
        """
        if record.ending:
            self._lives.pod_ends(record.ref.uid, grace_seconds(record.to_end))
        runs = any(container.running for container in record.facts.containers)
        stops = record.ending or (runs and self._next_actions(record).stops)
        self.pool.add(record.ref.uid, Queue.DELETION if stops else Queue.ADDITION)

    def hurry(self, record: PodRecord, grace: int) -> None:
        """A pod that is ending has so many seconds left at most."""
        self._lives.pod_ends(record.ref.uid, grace)

    def remove(self, orphan: PodRef) -> None:
        """What belongs to no pod has to go."""
        self.pool.add(orphan.uid, Queue.DELETION)

    def connected(self) -> None:
        """The cloud is there: what may have failed for want of it is tried again at once."""
        for uid in self._retries.forget_all():
            record = self._keeper.pods.get(uid)
            if record is not None:
                self.want(record)

    def forget(self, uid: PodUid) -> None:
        """A pod is gone."""
        self.pool.forget(uid)
        self.backoffs.forget_pod(uid)
        self._lives.pod_gone(uid)
        self._retries.forget(uid)

    def done(self, done: Done) -> None:
        """A worker has finished with a pod. The next job is given out last, when it is known what it is to be."""
        uid = done.job.ref.uid
        record = self._keeper.pods.get(uid)
        if record is not None:
            self._take_over(record, done)
        if done.verdict is not None:
            self._keeper.end(uid, done.verdict)
        elif done.error is not None:
            self._retry(done)
        else:
            self._succeeded(record, done)
        self.pool.done(done)

    def _job_of(self, work: Work) -> Job | None:
        record = self._keeper.pods.get(work.uid)
        if record is None:
            orphan = self._keeper.orphans.get(work.uid)
            return Job(Task.REMOVE, orphan) if orphan is not None else None
        task = Task.REMOVE if record.removed else Task.KILL if record.ending else Task.SYNC
        hooks = self._lives.start_hooks.facts(work.uid)
        return Job(task, record.ref, record.to_end, self._keeper.probes.facts(work.uid), hooks, record.exchanged)

    def _take_over(self, record: PodRecord, done: Done) -> None:
        if done.facts is not None and done.facts_at >= record.facts_at:
            record.facts, record.facts_at = done.facts, done.facts_at
            there = {container.id for container in done.facts.containers}
            record.exchanged = (record.exchanged | done.exchanged) & there
            record.facts = with_exchanged(record.facts, record.exchanged)
        waits = self._next_actions(record).waiting if done.job.task is Task.SYNC else ()
        self._tell_of_waits(record, waits)
        record.troubles = {**{wait.container.name: crash_loop(record.ref, wait) for wait in waits}, **done.troubles}
        record.killed = record.killed or (record.ending and done.ended)
        self._keeper.statuses.recompute(record, record.facts)

    def _tell_of_waits(self, record: PodRecord, waits: tuple[ContainerWait, ...]) -> None:
        """Of each container that keeps ending, once for each time it has to wait."""
        for wait in waits:
            if record.troubles.get(wait.container.name) != crash_loop(record.ref, wait):
                self._events.waits_to_restart(record.pod, wait.container.name)

    def _succeeded(self, record: PodRecord | None, done: Done) -> None:
        """A turn that only waits for something has not shown yet whether the pod's last failure is over: its delay goes
        on growing.
        """
        if not done.pending:
            self._retries.forget(done.job.ref.uid)
        self._go_on(record, done)

    def _go_on(self, record: PodRecord | None, done: Done) -> None:
        """What comes after a job that was done."""
        job = done.job
        if job.task is Task.REMOVE:
            self._keeper.gone(record, job.ref.uid)
        elif record is None:
            return
        elif job.task is Task.KILL:
            if record.going:
                self._reporter.finish(record.ref.uid)
        elif done.pending:
            record.rounds = 0
            delay = min(self._settings.resync_period, self._others_due(record, done))
            self.pool.add_after(record.ref.uid, Queue.ADDITION, delay)
        elif not self._is_final(record):
            self._look_again(record)

    def _next_actions(self, record: PodRecord) -> PodActions:
        """What would be done if it were the pod's turn now."""
        probes = self._keeper.probes.facts(record.ref.uid)
        hooks = self._lives.start_hooks.facts(record.ref.uid)
        now = Nanoseconds(self._clock.now_ns())
        return compute_pod_actions(record.pod, record.facts, now, self.backoffs, probes, hooks)

    def _look_again(self, record: PodRecord) -> None:
        """At once when the job's own result asks for a next step (an init container has ended), else later.

        A runtime that does not do what it says asks for a next step for ever: it gets one in a second.
        """
        actions = self._next_actions(record)
        record.rounds = 0 if actions.nothing else record.rounds + 1
        if 0 < record.rounds <= MOST_ROUNDS:
            self.want(record)
            return
        if not actions.nothing:
            delay = self._settings.relist_period
        elif actions.next_try is not None:
            delay = (actions.next_try - self._clock.now_ns()) / 1e9
        else:
            delay = self._settings.resync_period * (1 + self._clock.random.uniform(0, 0.5))
        self.pool.add_after(record.ref.uid, Queue.ADDITION, delay)

    def _retry(self, done: Done) -> None:
        uid = done.job.ref.uid
        delay = self._retries.after_failure(uid) if done.retry_after is None else done.retry_after
        record = self._keeper.pods.get(uid)
        if done.job.task is Task.SYNC and record is not None:
            delay = min(delay, self._others_due(record, done))
        queue = Queue.ADDITION if done.job.task is Task.SYNC else Queue.DELETION
        _log.warning("pod %s: %s; again in %.0f s", done.job.ref, done.error, delay)
        self.pool.add_after(uid, queue, delay)

    def _others_due(self, record: PodRecord, done: Done) -> float:
        """Seconds until containers are due that are in no trouble: they wait for their own back-off, not for that of
        another's image. One that ended while the worker was at the pod is due, and nobody tells of it once more.
        """
        actions = self._next_actions(record)
        ended = [start for start in actions.starts if start.after is not None]
        if isinstance(done.error, StartError) and any(start.container.name not in done.troubles for start in ended):
            return self._settings.relist_period
        return float("inf") if actions.next_try is None else (actions.next_try - self._clock.now_ns()) / 1e9

    def _is_final(self, record: PodRecord) -> bool:
        return record.pod.status.phase in (Phase.SUCCEEDED, Phase.FAILED) and not record.facts.anything_running
