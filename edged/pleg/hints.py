"""Hints for the PLEG: events of the runtime, and inspections by workers."""

import threading
from collections.abc import Callable

import msgspec

from edged.pleg.messages import WorkerInspection
from edged.pods import labels
from edged.pods.model import PodRef, PodUid
from protos.cri.v1 import api_pb2 as cri

MIN_INTERVAL = 0.05
"""Seconds between two inspections of hinted pods. A pod that ends causes several events within milliseconds; a storm of
events causes twenty inspections a second at most.
"""

LONGEST_SYNC = 5.0
"""Seconds for which the changes of a pod are left to the worker that syncs it: most are the worker's own."""


class Hint(msgspec.Struct, frozen=True):
    """An event about a pod."""

    ref: PodRef
    since: float
    """Time of the first event since the last inspection, in monotonic seconds."""
    urgent: bool
    wait: float
    """Seconds that it may wait."""


class Announced(msgspec.Struct, frozen=True):
    """The pods that events were about."""

    pods: frozenset[PodUid]
    anything: bool
    """Whether one event did not name its pod."""

    def names(self, uid: PodUid) -> bool:
        """Return whether an event was, or may have been, about this pod."""
        return self.anything or uid in self.pods


class Hints:
    """The pods to inspect, collected from the runtime's events, and the inspections that workers made.

    An event is only a hint to inspect a pod; the runtime's lists have the facts. So events may be repeated, late or out
    of order, and a hundred events of one pod are one hint. The end of a container is urgent. Other events mostly follow
    a worker's own action, and so do ends in a pod that is being ended. The worker inspects the pod when it is done:
    they wait until the next relist would have been due.

    A slow runtime blocks the PLEG for long, so hints are not messages in its inbox: their number is bounded by the
    number of pods. Thread-safe: the listener's and the module's threads add hints, the PLEG's thread takes them.

    Args:
        delay: seconds that hints that are not urgent may wait.
        is_ending: whether a pod is being ended; called on any thread.
    """

    def __init__(self, delay: float, is_ending: Callable[[PodUid], bool] = lambda _: False) -> None:
        self._delay = delay
        self._is_ending = is_ending
        self._lock = threading.Lock()
        self._pods: dict[PodUid, Hint] = {}
        self._nameless: float | None = None
        """Time of the first event without a pod, None without any."""
        self._inspections: dict[PodUid, WorkerInspection] = {}
        self._syncs: dict[PodUid, float] = {}
        """When workers began to sync pods that they have not inspected since, in monotonic seconds."""
        self._announced: set[PodUid] = set()
        self._announced_anything = False

    def add_event(self, event: cri.ContainerEventResponse, now: float) -> bool:
        """Add an event. Return whether the PLEG has to be woken: it inspects all hinted pods together, so that an event
        that is not urgent needs no further wake-up while events of other pods wait.
        """
        status = event.pod_sandbox_status
        if not event.HasField("pod_sandbox_status"):
            return self._add_nameless(now)
        ref = labels.ref_from_labels(status.labels)
        if ref is None:
            return False
        urgent = event.container_event_type == cri.CONTAINER_STOPPED_EVENT
        wait = 0.0 if urgent and not self._is_ending(ref.uid) else self._delay
        with self._lock:
            self._announced.add(ref.uid)
            known = self._pods.get(ref.uid)
            if known is not None and (known.urgent or not urgent):
                return False
            waits = bool(self._pods) or self._nameless is not None
            self._pods[ref.uid] = Hint(ref, known.since if known else now, urgent, wait)
        return not (wait and waits)

    def add_sync(self, uid: PodUid, now: float) -> None:
        """Note that a worker begins to sync a pod; its inspection follows."""
        self._syncs[uid] = now

    def is_left_to_worker(self, uid: PodUid, now: float) -> bool:
        """Return whether a worker will soon tell what a pod is like, and a relist need not."""
        return now - self._syncs.get(uid, float("-inf")) < LONGEST_SYNC

    def add_inspection(self, inspection: WorkerInspection) -> None:
        """Add a worker's inspection of a pod.

        It drops the pod's hint, unless a container has ended since: other events follow the worker's own actions before
        the inspection, reported a moment later.
        """
        uid = inspection.facts.ref.uid
        self._syncs.pop(uid, None)
        with self._lock:
            self._inspections[uid] = inspection
            known = self._pods.get(uid)
            if known is not None and (not known.urgent or known.since <= inspection.at):
                del self._pods[uid]

    def drain_inspections(self) -> list[WorkerInspection]:
        """Return and clear the workers' inspections; the newest one of each pod."""
        with self._lock:
            inspections = list(self._inspections.values())
            self._inspections.clear()
        return inspections

    def due(self, last_inspection: float) -> float | None:
        """Return when hinted pods have to be inspected, in monotonic seconds; None without hints.

        Args:
            last_inspection: time of the last inspection of hinted pods.
        """
        with self._lock:
            moments = [hint.since + hint.wait for hint in self._pods.values()]
            if self._nameless is not None:
                moments.append(self._nameless + self._delay)
        return max(min(moments), last_inspection + MIN_INTERVAL) if moments else None

    def drain(self) -> tuple[list[PodRef], bool]:
        """Return and clear the hinted pods in the order of their events, and whether everything has to be listed."""
        with self._lock:
            refs, everything = [hint.ref for hint in self._pods.values()], self._nameless is not None
            self._pods.clear()
            self._nameless = None
        return refs, everything

    def drain_announced(self) -> Announced:
        """Return and clear the pods that events were about."""
        with self._lock:
            announced = Announced(frozenset(self._announced), self._announced_anything)
            self._announced.clear()
            self._announced_anything = False
        return announced

    def _add_nameless(self, now: float) -> bool:
        """Add an event without a pod: containerd does not name the pod of a removed sandbox."""
        with self._lock:
            self._announced_anything = True
            if self._nameless is not None:
                return False
            self._nameless = now
        return True
