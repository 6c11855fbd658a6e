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

MAX_PAYLOAD: Final = 512 * 1024
"""Bytes of an application's message."""


def is_for_devices(topic: str) -> bool:
    """Return whether a message is for devicetwin; all others are for the cloud."""
    return topic.startswith(_OF_DEVICES)


def twin_resource(topic: str) -> str:
    """Return the resource under which devicetwin receives a message of a topic (KubeEdge's base64url)."""
    return base64.urlsafe_b64encode(topic.encode()).decode()
