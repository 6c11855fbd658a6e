"""Which messages of applications eventbus refuses, and the log of it."""

import logging
from typing import Final

from modules.apimachinery.device_topics import LONGEST_TOPIC, is_topic
from modules.edge.eventbus.counters import RefusalReason
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.routing import MAX_PAYLOAD, is_for_devices

_log = logging.getLogger(__name__)

QUIET: Final = 60.0
"""Seconds between two lines in the log about one reason: a device may send nothing else, a thousand times a second."""


def refusal_of(message: Received) -> tuple[RefusalReason, str] | None:
    """Return why a message is not taken; None if it is. Pure."""
    if not is_topic(message.topic):
        return RefusalReason.TOPIC, f"its topic is empty, no text, or longer than {LONGEST_TOPIC} bytes"
    if message.size > MAX_PAYLOAD:
        return RefusalReason.TOO_LARGE, f"it has {message.size} bytes; {MAX_PAYLOAD} are allowed"
    if message.retained and is_for_devices(message.topic):
        return RefusalReason.RETAINED, "an old report that the broker repeats to each new subscriber"
    try:
        message.payload.decode()
    except UnicodeDecodeError:
        return RefusalReason.BINARY, "it is no UTF-8, and KubeEdge's messages carry text: send binary data as base64"
    return None


class RefusalLog:
    """The log of refusals, written seldom: the counters have their number."""

    def __init__(self) -> None:
        self._logged: dict[RefusalReason, float] = {}

    def record(self, why: RefusalReason, topic: str, text: str, now: float) -> None:
        """Log a refusal unless one of its kind was logged within the last minute; `now` in monotonic seconds."""
        last = self._logged.get(why)
        if last is None or now - last >= QUIET:
            self._logged[why] = now
            _log.warning("not taken from %r: %s", topic[:200], text)
