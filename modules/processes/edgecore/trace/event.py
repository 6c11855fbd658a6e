"""Events: the common form of all records of a trace, with a source, a target and a subject.

Sources and targets are lanes: the modules by their names, the cloud, the container runtime and the store.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

CLOUD: Final = "cloud"
RUNTIME: Final = "cri"
STORE: Final = "store"

ORDER: Final = (CLOUD, "websocket", "metamanager", "edged")
"""Lanes that come first, in the order that a pod passes them; other modules follow by name, then the runtime and
the store."""

LABELS: Final = {"websocket": "edgehub", RUNTIME: "runtime (CRI)"}
"""Displayed names of lanes, where they differ from the lane."""


class EventKind(StrEnum):
    """The kind of an event's record."""

    MESSAGE = "message"
    FRAME = "frame"
    CALL = "cri call"
    CHANGE = "cri event"
    TIMER = "timer"
    COMMIT = "commit"
    NOTE = "note"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One record of a trace; times are in seconds since the trace began."""

    kind: EventKind
    sent: float
    """When the source sent it."""
    taken: float
    """When the target began to handle it."""
    end: float
    """When the target had handled it."""
    source: str
    """Lane of the sender; the target's own for a timer."""
    target: str
    verb: str
    """Operation, method of the runtime, or kind."""
    about: str
    """Resource without the node, or another subject."""
    id: str = ""
    parent: str = ""
    """Id of the message that it answers."""
    span: int = 0
    """Span of the event; 0 without one."""
    cause: int = 0
    """Span of its cause; 0 if unknown."""
    route: str = ""
    outcome: str = ""
    """A `beehive.Outcome`, `ok`, or the class of an error."""
    reason: str = ""
    depth: int = -1
    """Items that waited in the target's inbox when it was sent; negative without an inbox."""
    size: int = 0
    """Bytes on the wire, or of the content."""
    body: bytes = b""
    """JSON text of the whole record."""

    @property
    def waited(self) -> float:
        """Seconds between sending and taking."""
        return self.taken - self.sent

    @property
    def failed(self) -> bool:
        """Whether the outcome is a failure."""
        return self.outcome not in _WELL


_WELL: Final = frozenset({"", "ok", "handled", "coalesced"})


def label(lane: str) -> str:
    """Return the displayed name of a lane."""
    return LABELS.get(lane, lane)


def in_order(lanes: set[str]) -> list[str]:
    """Return lanes in the order that they are drawn."""
    last = (RUNTIME, STORE)
    middle = sorted(lanes.difference(ORDER, last))
    return [lane for lane in ORDER if lane in lanes] + middle + [lane for lane in last if lane in lanes]


NO_CAUSE = -1


def causes_of(events: Sequence[Event]) -> list[int]:
    """Return the index of each event's cause, or NO_CAUSE; `events` are in the order that they were sent.

    The bus records the span of each event's cause. A capture of other programs has no spans: there the cause of an
    answer is its request, and the cause of a message's hop is its hop before.
    """
    by_span = {event.span: index for index, event in enumerate(events) if event.span}
    seen: dict[str, int] = {}
    found = []
    for index, event in enumerate(events):
        cause = by_span.get(event.cause, NO_CAUSE) if event.cause else NO_CAUSE
        if cause in (NO_CAUSE, index):
            cause = seen.get(event.id, NO_CAUSE) if event.id else NO_CAUSE
        if cause == NO_CAUSE and event.parent:
            cause = seen.get(event.parent, NO_CAUSE)
        found.append(cause)
        if event.id:
            seen[event.id] = index
    return found
