"""The messages to the PLEG, and its events for edged."""

from typing import NamedTuple

from edged.cri.errors import CriError
from edged.pleg.reader import PodSnapshot
from edged.pods.model import PodFacts, PodUid


class PodInspection(NamedTuple):
    """The facts of one pod at one time."""

    facts: PodFacts
    at: float
    """When the lists were requested, in monotonic seconds: objects made after that may be missing. The later of two
    inspections holds.
    """


class Relisted(NamedTuple):
    """A relist: the pods that changed, and all pods that the runtime has."""

    changed: tuple[PodInspection, ...]
    snapshots: dict[PodUid, PodSnapshot]
    at: float


class RelistFailed(NamedTuple):
    """The runtime did not answer, or not for one pod; that pod counts as changed until it does."""

    error: CriError


PlegEvent = Relisted | PodInspection | RelistFailed
"""An event for edged: a `PodInspection` of a pod that has changed."""


class WorkerInspection(NamedTuple):
    """The facts of one pod that a worker has read itself."""

    facts: PodFacts
    owner: str
    at: float
    """As in `PodInspection`."""


class RelistSoon(NamedTuple):
    """A request to relist after the shorter period at the latest."""


class StreamRequested(NamedTuple):
    """The listener has requested the runtime's events."""


class StreamOpened(NamedTuple):
    """The runtime has begun to send its events."""


class StreamBroke(NamedTuple):
    """The runtime does not send events, or no longer."""


class HintAdded(NamedTuple):
    """`Hints` has a new hint."""


StreamEvent = StreamRequested | StreamOpened | StreamBroke | HintAdded
"""A message of the listener."""
