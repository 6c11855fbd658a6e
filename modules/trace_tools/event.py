"""An event: one record of a trace as all tools show it, from somewhere, to somewhere, about something.

Records differ in what they hold; whoever draws or explains them asks each the same questions. Places are lanes: the
modules by their names, and round them the cloud, the container runtime and the store.
"""

from enum import StrEnum
from typing import Final

import msgspec

CLOUD: Final = "cloud"
RUNTIME: Final = "cri"
STORE: Final = "store"

ORDER: Final = (CLOUD, "websocket", "metamanager", "edged")
"""Lanes that come first, in the way of a pod; other modules follow by name, then the runtime and the store."""

LABELS: Final = {"websocket": "edgehub", RUNTIME: "runtime (CRI)"}
"""What a person calls a lane, where it is not its name."""


class Sort(StrEnum):
    """What kind of record an event was."""

    MESSAGE = "message"
    FRAME = "frame"
    CALL = "cri call"
    CHANGE = "cri event"
    TIMER = "timer"
    COMMIT = "commit"
    NOTE = "note"


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened; times are seconds since the trace began."""

    sort: Sort
    sent: float
    """When it left where it came from."""
    taken: float
    """When the one it went to began with it."""
    end: float
    """When that was done."""
    source: str
    """Lane that it came from; the target's own for a timer."""
    target: str
    verb: str
    """Operation, method of the runtime, or kind."""
    about: str
    """Resource without the node, or what else it concerned."""
    id: str = ""
    parent: str = ""
    """Id of the message that it answers."""
    span: int = 0
    """Number of this happening; 0 when it has none."""
    cause: int = 0
    """Number of what it was sent or set in the course of; 0 when nobody knows."""
    way: str = ""
    outcome: str = ""
    """A `beehive.Outcome`, `ok`, or the class of an error."""
    reason: str = ""
    depth: int = -1
    """Items that waited in the target's inbox when it came; negative where there is no inbox."""
    size: int = 0
    """Bytes on the wire, or of the content."""
    body: bytes = b""
    """JSON text of all that was recorded of it."""

    @property
    def waited(self) -> float:
        """Seconds between sending and taking."""
        return self.taken - self.sent

    @property
    def failed(self) -> bool:
        """Whether it did not do what it was sent for."""
        return self.outcome not in _WELL


_WELL: Final = frozenset({"", "ok", "handled", "coalesced"})


def label(lane: str) -> str:
    """What a person calls a lane."""
    return LABELS.get(lane, lane)


def in_order(lanes: set[str]) -> list[str]:
    """Lanes in the order in which they are drawn."""
    last = (RUNTIME, STORE)
    middle = sorted(lanes.difference(ORDER, last))
    return [lane for lane in ORDER if lane in lanes] + middle + [lane for lane in last if lane in lanes]
