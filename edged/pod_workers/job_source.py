"""JobSource: makes jobs for pod workers."""

from beehive import Clock
from edged.api import Nanoseconds
from edged.lifecycle.post_start_hooks import PostStartHooks
from edged.orphans import Orphans
from edged.pod_workers.job import Job
from edged.pod_workers.work_queue import Work
from edged.pods.actions import PodActions, compute_pod_actions
from edged.pods.backoff import BackOffs
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import PodUid
from edged.pods.state import PodState
from edged.probes.manager import ProbeManager


class JobSource:
    """Makes the job of a pod when a worker is free, and not when the pod was queued: the job then has the newest facts.

    Used on the edged module's thread.

    Args:
        clock: the current time, for back-off.
        pods: the pods of this node.
        orphans: pods that are only removed.
        probes: results of probes.
        hooks: results of postStart hooks.
        backoffs: delays of containers that keep ending.
    """

    def __init__(
        self,
        clock: Clock,
        pods: PodManager,
        orphans: Orphans,
        probes: ProbeManager,
        hooks: PostStartHooks,
        backoffs: BackOffs,
    ) -> None:
        self._clock = clock
        self._pods = pods
        self._orphans = orphans
        self._probes = probes
        self._hooks = hooks
        self._backoffs = backoffs

    def job(self, work: Work) -> Job | None:
        """Return the job for a pod; None when nothing is left to do."""
        record = self._pods.get(work.uid)
        if record is None:
            orphan = self._orphans.get(work.uid)
            return Job(PodState.TERMINATED, orphan) if orphan is not None else None
        return Job(
            record.state,
            record.ref,
            record.terminating_pod,
            self._probes.facts(work.uid),
            self._hooks.facts(work.uid),
            record.replaced,
            record.deleted and not record.deletion_stored,
        )

    def forget_pod(self, uid: PodUid) -> None:
        """Drop the back-off of a pod that is removed from the node."""
        self._backoffs.forget_pod(uid)

    def next_actions(self, record: PodRecord) -> PodActions:
        """Return the actions of a worker if it synced the pod now."""
        uid, now = record.ref.uid, Nanoseconds(self._clock.now_ns())
        probes, hooks = self._probes.facts(uid), self._hooks.facts(uid)
        return compute_pod_actions(record.pod, record.facts, now, self._backoffs, probes, hooks)
