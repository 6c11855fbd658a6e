"""The one door to events: may be called by workers, by actors and on edged's own thread, and never blocks.

What is recorded is handed to edged's turn in the order of the calls; everything else is done there. A message must not
hold what may be a secret: what a probe or a command printed, a URL with a password, the value of a variable.
"""

from collections.abc import Callable

from beehive import Clock
from edged.api import Nanoseconds, ObjectReference
from edged.events.model import EventType, Occurrence, shortened
from edged.events.reasons import Reason
from edged.pods.model import PodRef


class EventRecorder:
    """See the module's docstring.

    Args:
        clock: says when.
        node: name of this node.
        take: takes an occurrence in edged's own turn; called on any thread.
    """

    def __init__(self, clock: Clock, node: str, take: Callable[[Occurrence], None]) -> None:
        self._clock = clock
        self._take = take
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
        """Something happened to a pod.

        Args:
            ref: the pod.
            event_type: whether somebody should worry.
            reason: a kubelet's word for it: a `Reason`, but for refused pods, which have the reason of their status.
            message: a sentence for people, without secrets; cut at 1024 characters.
            container: its name, when it is about one.
            among: in which list of the pod's spec it is: `containers`, `initContainers`, `ephemeralContainers`.
        """
        self._tell(_about(ref, container, among), event_type, reason, message)

    def record_node(self, event_type: EventType, reason: Reason, message: str) -> None:
        """Something happened to the node. Its reference is a kubelet's: the uid is the name."""
        self._tell(self._node, event_type, reason, message)

    def _tell(self, about: ObjectReference, event_type: EventType, reason: str, message: str) -> None:
        now = Nanoseconds(self._clock.now_ns())
        self._take(Occurrence(about, event_type, reason, shortened(message), now))


def _about(ref: PodRef, container: str, among: str) -> ObjectReference:
    """A pod, or a container in it, with client-go's field path."""
    path = f"spec.{among}{{{container}}}" if container else ""
    return ObjectReference(
        kind="Pod", api_version="v1", namespace=ref.namespace, name=ref.name, uid=ref.uid, field_path=path
    )
