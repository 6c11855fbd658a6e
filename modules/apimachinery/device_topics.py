"""The topics below `$hw` under which applications and Rules may publish. Pure.

All others there are answers, deltas and documents of edgecore, and applications and mappers rely on them.
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


def is_open_to_applications(topic: str) -> bool:
    """Return whether others than edgecore may publish under a topic."""
    return topic.partition("/")[0] != _OURS or _OPEN.fullmatch(topic) is not None
