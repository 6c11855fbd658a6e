"""The devices of the node whose page is served."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from beehive.errors import BeehiveError
from beehive.http.errors import HttpStatusError
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.insight.fleet.devices import Devices, DeviceStory, device_facts, device_story, devices
from modules.insight.fleet.rows import NodeRow
from modules.page.history import PropertyHistory

KEPT: Final = "The node keeps the last 20 values of a day."


class OwnDevice(msgspec.Struct, frozen=True):
    """A device as its node knows it, in the objects of the cloud."""

    device: JsonObject
    model: JsonObject
    status: JsonObject
    mapper: str
    """The state of its mapper, as a part of a sentence."""
    past: Mapping[str, Sequence[tuple[float, str]]]
    """The last reported values of each property, with their times, oldest first."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return text_at(self.device, "metadata.namespace"), text_at(self.device, "metadata.name")


class OwnDevices:
    """The answers to questions about the devices of a node at a time `now`, in seconds since 1970; raises
    HttpStatusError with 404 where they cannot be read.

    Args:
        read: returns them from the node's database. Raises BeehiveError.
    """

    def __init__(self, read: Callable[[], Sequence[OwnDevice]]) -> None:
        self._read = read

    def devices(self, node: NodeRow, query: str, now: float) -> Devices:
        """Return the devices that have some words."""
        facts = [device_facts(each.device, each.model, each.status, each.mapper) for each in self._all()]
        return devices(facts, [node], now, query)

    def story(self, namespace: str, name: str, node: NodeRow, now: float) -> DeviceStory:
        """Return a device with all its properties. Raises HttpStatusError with 404 without it."""
        one = self._one(namespace, name)
        return device_story(one.device, one.model, one.status, [node], now, one.mapper)

    def history(self, namespace: str, name: str, property_name: str, now: float) -> PropertyHistory:
        """Return the last values of a property. Raises HttpStatusError with 404 if there is no such device."""
        past = self._one(namespace, name).past.get(property_name, ())
        return PropertyHistory(past, KEPT, now)

    def _all(self) -> Sequence[OwnDevice]:
        try:
            return self._read()
        except BeehiveError as error:
            raise HttpStatusError(404, f"the devices of this node cannot be read: {error}") from error

    def _one(self, namespace: str, name: str) -> OwnDevice:
        found = next((each for each in self._all() if each.key == (namespace, name)), None)
        if found is None:
            raise HttpStatusError(404, f"this node has no device {namespace}/{name}")
        return found
