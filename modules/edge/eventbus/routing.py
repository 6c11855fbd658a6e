"""The topics that eventbus subscribes to, and the receiver of each message. Pure."""

import base64
from typing import Final

SUBSCRIPTIONS: Final = (
    "$hw/events/upload/#",
    "$hw/events/device/+/+/state/+",
    "$hw/events/device/+/+/twin/+",
    "$hw/events/device/+/state/+",
    "$hw/events/device/+/twin/+",
    "$hw/events/node/+/membership/get",
    "SYS/dis/upload_records",
    "+/user/#",
)
"""KubeEdge's, of today and of 2019 (a device's id without a namespace), and `state/get`. The topics where eventbus
itself publishes have more levels, so its messages do not come back.
"""

_OF_DEVICES: Final = ("$hw/events/device/", "$hw/events/node/")

LONGEST_TOPIC: Final = 1024
"""Bytes of a topic; the resource of a message to the cloud has no room for more."""

MAX_PAYLOAD: Final = 512 * 1024
"""Bytes of an application's message."""


def is_for_devices(topic: str) -> bool:
    """Return whether a message is for devicetwin; all others are for the cloud."""
    return topic.startswith(_OF_DEVICES)


def twin_resource(topic: str) -> str:
    """Return the resource under which devicetwin receives a message of a topic (KubeEdge's base64url)."""
    return base64.urlsafe_b64encode(topic.encode()).decode()


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
