"""The form of MQTT's topics, and the topics below `$hw` under which applications and Rules may publish. Pure.

All others below `$hw` are answers, deltas and documents of edgecore, and applications and mappers rely on them.
"""

import re
from typing import Final

OPEN_TO_APPLICATIONS: Final = (
    "$hw/events/device/+/+/twin/update",
    "$hw/events/device/+/+/twin/get",
    "$hw/events/device/+/+/state/update",
    "$hw/events/device/+/+/state/get",
    "$hw/events/device/+/twin/update",
    "$hw/events/device/+/twin/get",
    "$hw/events/device/+/state/update",
    "$hw/events/device/+/state/get",
    "$hw/events/node/+/membership/get",
    "$hw/events/upload/#",
)
"""As filters of MQTT."""

_OPEN: Final = re.compile("|".join(
    re.escape(each).replace(r"\+", "[^/]+").replace(r"/\#", "(/.*)?") for each in OPEN_TO_APPLICATIONS
), re.DOTALL)  # fmt: skip
_OURS: Final = "$hw"
_DEVICE: Final = [_OURS, "events", "device"]

LONGEST_TOPIC: Final = 1024
"""Bytes of a topic; the resource of a message to the cloud has no room for more."""


def is_topic(topic: str) -> bool:
    """Return whether something may be published under a topic."""
    is_plain = "+" not in topic and "#" not in topic and "\0" not in topic
    return is_plain and 0 < len(topic.encode()) <= LONGEST_TOPIC


def is_filter(topic: str) -> bool:
    """Return whether a topic, perhaps with wildcards, may be subscribed to (MQTT 3.1.1 §4.7)."""
    if not 0 < len(topic.encode()) <= LONGEST_TOPIC or "\0" in topic:
        return False
    *levels, last = topic.split("/")
    return all(level == "+" or not set(level) & set("+#") for level in levels) and (
        last in ("+", "#") or not set(last) & set("+#")
    )


def namespace_of_topic(topic: str) -> str:
    """Return the namespace of the Device that a topic names; empty for any other topic, and for a device without a
    namespace, as in 2019.
    """
    levels = topic.split("/")
    return levels[3] if levels[:3] == _DEVICE and len(levels) > len(_DEVICE) + 3 else ""


def is_open_to_applications(topic: str) -> bool:
    """Return whether others than edgecore may publish under a topic."""
    return topic.partition("/")[0] != _OURS or _OPEN.fullmatch(topic) is not None
