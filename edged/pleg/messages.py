"""The messages to the PLEG, and its events for edged."""

import msgspec

from edged.cri.errors import CriError
from edged.pleg.reader import PodSnapshot
from edged.pods.model import PodFacts, PodUid


class PodInspection(msgspec.Struct, frozen=True):
    """The facts of one pod at one time."""

    facts: PodFacts
    at: float
    """When the lists were requested, in monotonic seconds: objects made after that may be missing. The later of two
    inspections holds.
    """

    @property
    def uid(self) -> PodUid:
        """Of the pod."""
        return self.facts.ref.uid


class Relisted(msgspec.Struct, frozen=True):
    """A relist: the pods that changed, and all pods that the runtime has."""

    changed: tuple[PodInspection, ...]
    snapshots: dict[PodUid, PodSnapshot]
    at: float


class RelistFailed(msgspec.Struct, frozen=True):
    """The runtime did not answer, or not for one pod; that pod counts as changed until it does."""

    error: CriError


PlegEvent = Relisted | PodInspection | RelistFailed
"""An event for edged: a `PodInspection` of a pod that has changed."""


class WorkerInspection(msgspec.Struct, frozen=True):
    """The facts of one pod that a worker has read itself."""

    facts: PodFacts
    owner: str
    at: float
    """As in `PodInspection`."""


class RelistSoon(msgspec.Struct, frozen=True):
    """A request to relist after the shorter period at the latest."""


class StreamRequested(msgspec.Struct, frozen=True):
    """The listener has requested the runtime's events."""


class StreamOpened(msgspec.Struct, frozen=True):
    """The runtime has begun to send its events."""


class StreamBroke(msgspec.Struct, frozen=True):
    """The runtime does not send events, or no longer."""


class HintAdded(msgspec.Struct, frozen=True):
    """`Hints` has a new hint."""


StreamEvent = StreamRequested | StreamOpened | StreamBroke | HintAdded
"""A message of the listener."""
