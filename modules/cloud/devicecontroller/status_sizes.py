"""How much memory of the API server the reports of each node take."""

from collections import Counter
from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.limits import memory_of
from modules.cloud.devicecontroller.devices_by_key import DevicesByKey

BYTES: Final = 1536 * 1024
"""Memory that the values of a node's devices may take, and more for each property: as much as its mirror pods."""
BYTES_OF_PROPERTY: Final = 2048
"""People have made the properties, and one with a short value, its metadata and an expected value takes 1,500 bytes."""


class StatusSizes:
    """The sizes of the DeviceStatuses, and their sums by node.

    Args:
        known: the Devices that there are.
    """

    def __init__(self, known: DevicesByKey) -> None:
        self._known = known
        self._sizes: dict[ObjectKey, tuple[str, int]] = {}
        self._sums: Counter[str] = Counter()

    def put(self, key: ObjectKey, status: JsonObject | None) -> None:
        """Take over a present DeviceStatus; None when it does not exist."""
        node, size = self._sizes.pop(key, ("", 0))
        self._sums[node] -= size
        if not self._sums[node]:
            del self._sums[node]
        device = self._known.devices.get(key)
        if status is not None and device is not None and device.node:
            self._sizes[key] = device.node, size_of(status)
            self._sums[device.node] += self._sizes[key][1]

    def refusal(self, key: ObjectKey, made: JsonObject) -> str:
        """Return why a DeviceStatus is not to be written; empty if it is. A status that becomes no larger always is."""
        device = self._known.devices.get(key)
        if device is None or not device.node:
            return ""
        node, before = self._sizes.get(key, ("", 0))
        before = before if node == device.node else 0
        size = size_of(made)
        wanted = self._sums[device.node] - before + size
        if size <= before or wanted <= BYTES:
            return ""
        devices = self._known.on_node(device.node)
        most = BYTES + BYTES_OF_PROPERTY * sum(len(self._known.devices[each].properties) for each in devices)
        if wanted <= most:
            return ""
        return f"exceeded quota: the values of the devices of node {device.node} would take more than {most} bytes"


def size_of(status: JsonObject) -> int:
    """Return about how many bytes of memory the values in a DeviceStatus take."""
    content = status.get("status")
    twins = content.get("twins") if isinstance(content, dict) else None
    return memory_of(msgspec.json.encode(twins)) if twins else 0
