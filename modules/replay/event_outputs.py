"""Events as outputs: what was told, not when and how often.

An event's name and times are of its run, and whether two occurrences leave as one message depends on a few
milliseconds. So it only matters that the same was told of the same object.
"""

import re
from typing import Any, Final

from beehive.names import ResourceType
from beehive.resource import Side, type_of
from modules.replay.normal import lines

_DURATION: Final = re.compile(r"\b\d+(?:\.\d+)?(?:ms|m|s)\b")
_TOLD: Final = ("type", "reason", "involvedObject", "source")


def is_event(resource: str) -> bool:
    """Whether a resource, or a key of the store, is that of an event."""
    return type_of(resource, Side.EDGE) == ResourceType.EVENT


def told(value: Any) -> tuple[str, tuple[str, ...]]:
    """The title, which says what was told, and the lines of an event; of what is none, all of it."""
    if not isinstance(value, dict) or not isinstance(about := value.get("involvedObject"), dict):
        return "event", tuple(lines(value))
    message = _DURATION.sub("<duration>", str(value.get("message", "")))
    title = f"event {value.get('reason', '')} about {about.get('kind', '')} {about.get('name', '')}: {message}"
    return title, (title, *lines({**{key: value.get(key) for key in _TOLD}, "message": message}))
