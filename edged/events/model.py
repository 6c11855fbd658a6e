"""An occurrence, the source of events."""

from enum import StrEnum

from msgspec import Struct

from modules.apimachinery.types import Nanoseconds, ObjectReference

MOST_CHARACTERS = 1024
"""Longest message of an event, in characters (the limit of the API's notes): a runtime's error can be long, and events
are stored.
"""


class EventType(StrEnum):
    """Kubernetes' types of events."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Occurrence(Struct, frozen=True, gc=False):
    """A single occurrence about an object."""

    about: ObjectReference
    type: EventType
    reason: str
    message: str
    at: Nanoseconds


def turn_of_event(occurrence: Occurrence) -> str:
    """Return the name of the turn in which edged takes an Event: containers of a pod are stopped at once."""
    about = occurrence.about
    return " ".join(filter(None, (occurrence.reason, about.uid, about.field_path)))


def shortened(message: str) -> str:
    """Return the message, cut to `MOST_CHARACTERS`."""
    return message if len(message) <= MOST_CHARACTERS else message[: MOST_CHARACTERS - 1] + "…"
