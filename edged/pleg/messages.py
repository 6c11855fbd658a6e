"""What the PLEG is told, and what it tells edged."""

from typing import NamedTuple

from edged.cri.errors import CriError
from edged.pleg.reader import Glance
from edged.pods.model import PodFacts, PodUid


class Seen(NamedTuple):
    """What was found out about one pod."""

    facts: PodFacts
    at: float
    """When the lists were asked for, monotonic seconds: what was made after that may be missing. Of two, the later one
    holds.
    """


class Relisted(NamedTuple):
    """One relist: the pods that changed, and all pods that the runtime has."""

    changed: tuple[Seen, ...]
    glances: dict[PodUid, Glance]
    at: float


class Looked(NamedTuple):
    """A pod was looked at because of an event, and is not as it was."""

    seen: Seen


class RelistFailed(NamedTuple):
    """The runtime did not answer, or not for one pod; that one counts as changed until it does."""

    error: CriError


Event = Relisted | Looked | RelistFailed
"""What edged is told."""


class Observed(NamedTuple):
    """A worker has read the facts of a pod itself."""

    facts: PodFacts
    owner: str
    at: float
    """When, as in `Seen`."""


class LookAround(NamedTuple):
    """Somebody waits for a relist: do not let more than the shorter period pass until the next one."""


class StreamAsked(NamedTuple):
    """The runtime is asked for its events."""


class StreamOpened(NamedTuple):
    """It sends them from now on."""


class StreamBroke(NamedTuple):
    """It does not, or no longer."""


class Heard(NamedTuple):
    """There is something among the hints that was not there before."""


StreamNews = StreamAsked | StreamOpened | StreamBroke | Heard
"""What the listener tells."""
