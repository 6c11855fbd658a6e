"""ActiveDeadlines: ends pods after their active deadline."""

from typing import NamedTuple

from beehive import ModuleContext, Timer
from edged.api import Nanoseconds, Pod
from edged.pod_killer import PodKiller
from edged.pods.deadline import DEADLINE_EXCEEDED, deadline_of
from edged.pods.labels import ref_of
from edged.pods.model import PodUid


class _Running(NamedTuple):
    deadline: Nanoseconds
    timer: Timer


class ActiveDeadlines:
    """Ends pods that have been active for longer than `activeDeadlineSeconds` (kubelet's activeDeadlineHandler).

    A deadline is a time of the wall clock, because it must outlive the agent. The wait for it is measured by the
    monotonic clock: a wall clock that is corrected meanwhile (a board that booted in 1970) ends no pod. Lives on the
    edged module's thread.

    Args:
        context: the module.
        killer: ends a pod.
    """

    def __init__(self, context: ModuleContext, killer: PodKiller) -> None:
        self._context = context
        self._killer = killer
        self._running: dict[PodUid, _Running] = {}

    def watch(self, pod: Pod) -> None:
        """Wait for the deadline of a pod, if it has one; call this whenever the pod or its status changes."""
        uid, deadline = ref_of(pod).uid, deadline_of(pod)
        known = self._running.get(uid)
        if deadline == (known.deadline if known is not None else None):
            return
        self.forget(uid)
        if deadline is not None:
            left = (deadline - self._context.clock.now_ns()) / 1e9
            self._running[uid] = _Running(deadline, self._context.after(max(left, 0.0), lambda: self._over(uid)))

    def forget(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        known = self._running.pop(uid, None)
        if known is not None:
            known.timer.cancel()

    def _over(self, uid: PodUid) -> None:
        self._killer.kill_overdue_pod(uid, DEADLINE_EXCEEDED)
