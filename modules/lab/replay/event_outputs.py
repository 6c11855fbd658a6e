"""Outputs about Kubernetes events: the content counts, not time and number.

An event's name and times differ between runs, and it takes a few milliseconds' difference for two occurrences to leave
as one message. So two runs only have to report the same of the same object.
"""

import re
from typing import Any, Final

from beehive.names import ResourceType
from beehive.resource import Side, type_of
from modules.lab.replay.normalize import lines

_DURATION: Final = re.compile(r"\b\d+(?:\.\d+)?(?:ms|m|s)\b")
_TOLD: Final = ("type", "reason", "involvedObject", "source")


def is_event(resource: str) -> bool:
    """Return whether a resource, or a key of the store, is an event."""
    return type_of(resource, Side.EDGE) == ResourceType.EVENT


def event_lines(value: Any) -> tuple[str, tuple[str, ...]]:
    """Return the title and the compared lines of an event; all lines of anything else."""
    if not isinstance(value, dict) or not isinstance(about := value.get("involvedObject"), dict):
        return "event", tuple(lines(value))
    message = _DURATION.sub("<duration>", str(value.get("message", "")))
    title = f"event {value.get('reason', '')} about {about.get('kind', '')} {about.get('name', '')}: {message}"
    return title, (title, *lines({**{key: value.get(key) for key in _TOLD}, "message": message}))
