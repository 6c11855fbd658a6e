"""Reads the devices for the page: as few as a page shows, and not again for each browser that asks."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Final

from beehive.clock import Clock
from modules.apimachinery.kinds import Kind
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.cli.errors import StatusError
from modules.cli.rest import object_path
from modules.cloud.device_forms import converted_device, converted_model
from modules.cloud.devices import DEVICE, DEVICE_MODEL, DEVICE_STATUS
from modules.insight.fleet.devices import DeviceFacts, Devices, DeviceStory, device_facts, device_story, devices
from modules.insight.fleet.rows import NodeRow
from modules.page.feeds import ApiClient
from modules.page.listing import listed
from modules.page.sight import Sight

MOST: Final = 2000
"""Objects of a kind that are read."""
_ALL: Final = Sight()
_PART: Final = 100
"""Objects of a part of a list: a node may fill a DeviceStatus with 256 Ki characters."""
_PERIOD: Final = 5.0
"""Least seconds between two readings of the devices."""
_SHARE: Final = 5.0
"""Times that the reading took: it goes on for a sixth of the time at most, however slow the server is."""


class DeviceReader:
    """A reader of Devices, DeviceModels and DeviceStatuses. Thread-safe.

    Args:
        client: the Kubernetes API.
        clock: for the age of what was read.
    """

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._facts: list[DeviceFacts] = []
        self._is_cut = False
        self._good_until = float("-inf")

    def devices(self, nodes: Sequence[NodeRow], query: str, sight: Sight = _ALL) -> Devices:
        """Return the devices that a user sees and that have some words. Raises KubectlError."""
        found, is_cut = self.facts()
        facts = [each for each in found if sight.has_devices(each.namespace)]
        return devices(facts, _known(nodes, facts, sight), self._clock.now(), query, is_cut=is_cut)

    def facts(self) -> tuple[Sequence[DeviceFacts], bool]:
        """Return the facts of the devices, and whether there are more. Raises KubectlError."""
        with self._lock:
            began = self._clock.monotonic()
            if began >= self._good_until:
                self._read()
                ended = self._clock.monotonic()
                self._good_until = ended + max(_PERIOD, _SHARE * (ended - began))
            return self._facts, self._is_cut

    def story(self, namespace: str, name: str, nodes: Sequence[NodeRow], sight: Sight = _ALL) -> DeviceStory:
        """Return a device with all its properties.

        Raises:
            KubectlError: there is no such Device, or no server answers.
        """
        device = converted_device(self._client.get(object_path(DEVICE, namespace, name))).object
        model = self._object(DEVICE_MODEL, namespace, text_at(device, "spec.deviceModelRef.name"))
        status = self._object(DEVICE_STATUS, namespace, name)
        facts = device_facts(device, converted_model(model).object, status)
        return device_story(
            device, converted_model(model).object, status, _known(nodes, [facts], sight), self._clock.now()
        )

    def _object(self, kind: Kind, namespace: str, name: str) -> JsonObject:
        """Return an object, by default an empty one."""
        try:
            return self._client.get(object_path(kind, namespace, name)) if name else {}
        except StatusError as refused:
            if refused.code != HTTPStatus.NOT_FOUND:
                raise
            return {}

    def _read(self) -> None:
        found = [converted_device(each).object for each in self._objects(DEVICE)]
        models = {_key(each): converted_model(each).object for each in self._objects(DEVICE_MODEL)}
        waiting = {_key(each): each for each in found[:MOST]}
        facts, statuses = [], 0
        for status in self._objects(DEVICE_STATUS):
            statuses += 1
            device = waiting.pop(_key(status), None)
            if device is not None:
                facts.append(_facts(device, models, status))
        is_whole = statuses <= MOST  # else a device without a status may have an unread one
        facts += [_facts(device, models, {}) for device in waiting.values() if is_whole]
        self._facts, self._is_cut = facts, len(found) > MOST or (bool(waiting) and not is_whole)

    def _objects(self, kind: Kind) -> Iterator[JsonObject]:
        """Return the objects of a kind, `MOST` + 1 at most; none if the server lacks the kind."""
        return listed(self._client, object_path(kind), _PART, MOST + 1, (HTTPStatus.NOT_FOUND,))


def _known(nodes: Sequence[NodeRow], devices: Iterable[DeviceFacts], sight: Sight) -> Sequence[NodeRow]:
    """Return the nodes of devices, without a state for a user who may not see nodes."""
    return nodes if sight.has_nodes else [NodeRow(name, "") for name in {each.node for each in devices}]


def _key(obj: JsonObject) -> tuple[str, str]:
    return text_at(obj, "metadata.namespace"), text_at(obj, "metadata.name")


def _facts(device: JsonObject, models: dict[tuple[str, str], JsonObject], status: JsonObject) -> DeviceFacts:
    model = models.get((text_at(device, "metadata.namespace"), text_at(device, "spec.deviceModelRef.name")), {})
    return device_facts(device, model, status)
