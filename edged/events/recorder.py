"""The recorder of events."""

from collections.abc import Callable

from beehive import Clock
from edged.events.model import EventType, Occurrence, shortened
from edged.events.reasons import Reason
from edged.pods.model import PodRef
from modules.apimachinery.types import Nanoseconds, ObjectReference


class EventRecorder:
    """A recorder of events for any thread; it does not block: edged's thread does the rest, in the order of the calls.

    A message must not contain possible secrets: the output of a probe or a command, a URL with a password, the value of
    a variable.

        recorder.record(ref_of(pod), EventType.NORMAL, Reason.STARTED, "Started container web", "web")

    Args:
        clock: for the time of an occurrence.
        node: name of this node.
        report: called with each occurrence, on any thread.
        keep: called with each occurrence, and with each step of a pod that is no Event, on any thread.
    """

    def __init__(
        self,
        clock: Clock,
        node: str,
        report: Callable[[Occurrence], None],
        keep: Callable[[Occurrence], None] = lambda _occurrence: None,
    ) -> None:
        self._clock = clock
        self._report = report
        self._keep = keep
        self._node = ObjectReference(kind="Node", name=node, uid=node)

    def record(
        self,
        ref: PodRef,
        event_type: EventType,
        reason: str,
        message: str,
        container: str = "",
        *,
        among: str = "containers",
    ) -> None:
        """Record an event of a pod.

        Args:
            ref: the pod.
            event_type: Normal or Warning.
            reason: a `Reason`; for rejected pods the reason of their status.
            message: a sentence for people, without secrets; cut at 1024 characters.
            container: its name, for an event of one container.
            among: the container's list in the pod's spec: `containers`, `initContainers`, `ephemeralContainers`.
        """
        self._record(_about(ref, container, among), event_type, reason, message)

    def step(self, ref: PodRef, reason: str, text: str, container: str = "", *, is_warning: bool = False) -> None:
        """Record a step of a pod that is no Event; see `record`."""
        event_type = EventType.WARNING if is_warning else EventType.NORMAL
        self._keep(self._occurrence(_about(ref, container, "containers"), event_type, reason, text))

    def record_node(self, event_type: EventType, reason: Reason, message: str) -> None:
        """Record an event of the node. As in a kubelet, the uid of the node's reference is its name."""
        self._record(self._node, event_type, reason, message)

    def _record(self, about: ObjectReference, event_type: EventType, reason: str, message: str) -> None:
        occurrence = self._occurrence(about, event_type, reason, message)
        self._keep(occurrence)
        self._report(occurrence)

    def _occurrence(self, about: ObjectReference, event_type: EventType, reason: str, message: str) -> Occurrence:
        return Occurrence(about, event_type, reason, shortened(message), Nanoseconds(self._clock.now_ns()))


def _about(ref: PodRef, container: str, among: str) -> ObjectReference:
    """Return the reference of a pod, or of a container in it with client-go's field path."""
    path = f"spec.{among}{{{container}}}" if container else ""
    return ObjectReference(
        kind="Pod", api_version="v1", namespace=ref.namespace, name=ref.name, uid=ref.uid, field_path=path
    )
