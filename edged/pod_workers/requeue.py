"""Decides when a pod is synced again after a job."""

from typing import NamedTuple

from beehive import Clock
from edged.pod_workers.errors import StartError
from edged.pod_workers.job import Done
from edged.pod_workers.job_source import JobSource
from edged.pods.manager import PodRecord
from edged.pods.model import PodUid
from edged.pods.state import PodState
from edged.settings import EdgedSettings

MAX_IMMEDIATE_SYNCS = 20
"""Syncs that a pod may have one right after the other: init containers that end at once need one each."""
FIRST_RETRY = 2.0
"""Seconds until the first retry of a job that failed; doubles (KubeEdge waits 10 s at once)."""
LONGEST_RETRY = 300.0
"""Upper limit of that delay in seconds (KubeEdge's MaxContainerBackOff)."""


_EARLY = 0.1
"""Seconds before its time that a retry counts as due."""


class _Retry(NamedTuple):
    delay: float
    """Seconds from the failed job to the retry."""
    at: float
    """Time of the retry, in seconds of the monotonic clock."""


class RequeuePolicy:
    """Decides how long a pod waits for its next sync. Used on the edged module's thread.

    Args:
        clock: the current time and the jitter.
        settings: periods of relist and resync.
        jobs: the next actions of a pod.
    """

    def __init__(self, clock: Clock, settings: EdgedSettings, jobs: JobSource) -> None:
        self._clock = clock
        self._settings = settings
        self._jobs = jobs
        self._retries: dict[PodUid, _Retry] = {}
        self._immediate_syncs: dict[PodUid, int] = {}

    def after_success(self, record: PodRecord, done: Done) -> float | None:
        """Return the seconds until the pod is synced again; None: at once.

        A pod is synced again at once when the result of a job asks for a next step (an init container has ended). A
        runtime whose answers do not match its actions would cause next steps for ever: after `MAX_IMMEDIATE_SYNCS` the
        pod gets one every relist period.
        """
        uid = record.ref.uid
        if done.pending:
            self._immediate_syncs.pop(uid, None)
            return min(self._settings.resync_period, self._until_others_due(record, done))
        actions = self._jobs.next_actions(record)
        if not actions.nothing:
            self._immediate_syncs[uid] = self._immediate_syncs.get(uid, 0) + 1
            return None if self._immediate_syncs[uid] <= MAX_IMMEDIATE_SYNCS else self._settings.relist_period
        self._immediate_syncs.pop(uid, None)
        if actions.next_try is not None:
            return self._seconds_until(actions.next_try)
        return self._settings.resync_period * (1 + self._clock.random.uniform(0, 0.5))

    def after_failure(self, record: PodRecord | None, done: Done) -> float:
        """Return the seconds until a job that failed is tried again: the delay doubles until one succeeds.

        A job that failed before its retry was due was run for another reason, such as a configmap that has arrived: its
        retry stays where it is.
        """
        delay = self._next_retry(done.job.ref.uid) if done.retry_after is None else done.retry_after
        if done.job.state is PodState.SYNC and record is not None:
            delay = min(delay, self._until_others_due(record, done))
        return delay

    def reset(self, uid: PodUid) -> None:
        """Start the retries of a pod at the first delay again."""
        self._retries.pop(uid, None)

    def reset_all(self) -> list[PodUid]:
        """Start the retries of all pods at the first delay again, and return the pods that were waiting."""
        waiting = list(self._retries)
        self._retries.clear()
        return waiting

    def failed(self) -> frozenset[PodUid]:
        """Return the pods whose last job failed; any thread."""
        return frozenset(self._retries.copy())

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        self._retries.pop(uid, None)
        self._immediate_syncs.pop(uid, None)

    def _next_retry(self, uid: PodUid) -> float:
        now, before = self._clock.monotonic(), self._retries.get(uid)
        if before is not None and before.at - now > _EARLY:
            return before.at - now
        delay = FIRST_RETRY if before is None else min(LONGEST_RETRY, before.delay * 2)
        self._retries[uid] = _Retry(delay, now + delay)
        return delay

    def _until_others_due(self, record: PodRecord, done: Done) -> float:
        """Return the seconds until another container of the pod is due: it waits for its own back-off, not for that of
        another container's image. A container that ended during the job is due, and no event reports it once more.
        """
        actions = self._jobs.next_actions(record)
        ended = [start for start in actions.starts if start.after is not None]
        if isinstance(done.error, StartError) and any(
            start.container.name not in done.waiting_reasons for start in ended
        ):
            return self._settings.relist_period
        return float("inf") if actions.next_try is None else self._seconds_until(actions.next_try)

    def _seconds_until(self, at: int) -> float:
        return (at - self._clock.now_ns()) / 1e9
