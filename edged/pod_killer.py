"""The end of pods by decision of this node: evictions, deadlines, refused admissions, the machine's shutdown."""

import logging

from edged.api import Pod
from edged.events.pods import PodEvents
from edged.pod_workers.workers import PodWorkers
from edged.pods.kill_options import EVICTED, KillOptions
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import PodUid
from edged.pods.restart import is_terminal

_log = logging.getLogger(__name__)


class PodKiller:
    """Ends pods for good that the cloud has not deleted (kubelet's killPodNow). Lives on the edged module's thread.

    Args:
        pods: the pods of this node.
        workers: stop their containers.
        events: records evictions, missed deadlines and rejections.
    """

    def __init__(self, pods: PodManager, workers: PodWorkers, events: PodEvents) -> None:
        self._pods = pods
        self._workers = workers
        self._events = events

    def kill_pod(self, uid: PodUid, options: KillOptions) -> bool:
        """End a pod for good; return False if it has ended already or is being ended: the first options stand."""
        record = self._pods.get(uid)
        if record is None or record.termination_requested or is_terminal(record.pod):
            return False
        _log.warning("pod %s is ended: %s: %s", record.ref, options.reason, options.message)
        record.kill(options)
        self._workers.update_pod(record)
        return True

    def kill_pod_within(self, uid: PodUid, options: KillOptions) -> None:
        """End a pod for good. A pod that is ending already keeps its reason, but has no more time than the grace period
        of these options from now on (a kubelet's pod worker shortens it so).
        """
        if self.kill_pod(uid, options):
            return
        record = self._pods.get(uid)
        if record is not None and options.grace_period is not None and not self.is_terminated(uid):
            self._workers.shorten_grace_period(record, options.grace_period)

    def evict_pod(self, uid: PodUid, message: str, grace_period: int = 1, *, disruption: bool = False) -> None:
        """End a pod that uses more than it may, or whose resources the node needs (kubelet's evictPod).

        Args:
            uid: of the pod.
            message: the reason, for people.
            grace_period: seconds that its containers get.
            disruption: whether the pod gets the condition DisruptionTarget, see `KillOptions`.
        """
        record, options = self._pods.get(uid), KillOptions(EVICTED, message, grace_period, disruption=disruption)
        if self.kill_pod(uid, options) and record is not None:
            self._events.evicted(record.pod, message)

    def kill_overdue_pod(self, uid: PodUid, options: KillOptions) -> None:
        """End a pod whose active deadline has passed."""
        record = self._pods.get(uid)
        if self.kill_pod(uid, options) and record is not None:
            self._events.deadline_exceeded(record.pod, options.message)

    def reject_pod(self, record: PodRecord, options: KillOptions) -> None:
        """End a pod that this node does not admit (kubelet's rejectPod)."""
        if self.kill_pod(record.ref.uid, options):
            self._events.refused(record.pod, options.reason, options.message)

    def active_pods(self) -> list[Pod]:
        """Return the pods whose end nobody has requested."""
        return [record.pod for record in self._pods if not record.termination_requested]

    def unterminated_pods(self) -> list[Pod]:
        """Return the pods that may still have running containers."""
        return [record.pod for record in self._pods if not self.is_terminated(record.ref.uid)]

    def is_terminated(self, uid: PodUid) -> bool:
        """Return whether nothing of a pod runs any more."""
        record = self._pods.get(uid)
        return record is None or record.terminated or is_terminal(record.pod)
