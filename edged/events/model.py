"""Something that happened, before it has become an event."""

from enum import StrEnum

from msgspec import Struct

from edged.api import Nanoseconds, ObjectReference

MOST_CHARACTERS = 1024
"""Length of an event's message from which on it is cut (the limit of the API's notes): a runtime's error can be long,
and events are kept."""


class EventType(StrEnum):
    """Kubernetes' two."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Occurrence(Struct, frozen=True, gc=False):
    """What happened once, to what, and when."""

    about: ObjectReference
    type: EventType
    reason: str
    message: str
    at: Nanoseconds


def shortened(message: str) -> str:
    """The message, at most `MOST_CHARACTERS` of it."""
    return message if len(message) <= MOST_CHARACTERS else message[: MOST_CHARACTERS - 1] + "…"
