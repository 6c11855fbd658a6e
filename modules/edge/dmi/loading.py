"""Reads the stored Devices and DeviceModels when the first mapper registers, and follows their changes."""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from beehive import BeehiveError, Message, Module, ModuleName, Operation, ResourceType
from metamanager.client import AsyncMetaClient, CallError
from modules.edge.dmi.catalogue import Catalogue, Mark
from modules.edge.dmi.objects import read_mapped_device, read_mapped_model

_log = logging.getLogger(__name__)

TWIN_SECONDS: Final = 30.0
"""Seconds for devicetwin's answer; devicetwin first reads its devices from the store."""

Then = Callable[[BeehiveError | None], None]


class CatalogueLoader:
    """A loader that fills a catalogue from the node's store when it is first needed; until then changes cost nothing.

    Args:
        module: dmi.
        meta: the store.
        catalogue: to fill.
    """

    def __init__(self, module: Module, meta: AsyncMetaClient, catalogue: Catalogue) -> None:
        self._module = module
        self._meta = meta
        self._catalogue = catalogue
        self.is_loaded = False
        """Whether the stored objects have been read."""
        self._waiting: list[Then] = []
        self._held: dict[tuple[str, bool], Message] = {}
        """Changes since the load has begun: of each object the last one, and the last deletion."""

    def when_loaded(self, then: Then) -> None:
        """Call `then` when the stored objects have been read, or with the reason why they cannot be read."""
        if self.is_loaded:
            then(None)
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            self._catalogue.clear()  # of what a load before read that failed: changes since then were not followed
            self._meta.list_all(ResourceType.DEVICE_MODEL, then=self._models_read)

    def changed(self, message: Message) -> set[Mark]:
        """Apply a stored or deleted Device or DeviceModel, or the desired values of the node's owner, and return the
        objects to send to mappers.
        """
        about, is_deleted = message.subject, message.route.operation == Operation.DELETE
        if not self.is_loaded:
            if self._waiting:
                change = message.route.resource, is_deleted
                self._held.pop(change, None)
                self._held[change] = message
            return set()
        key = f"{about.namespace}/{about.name}"
        if about.type == ResourceType.DEVICE_TWIN:
            return self._catalogue.put_desired(key, message.content_as(dict[str, str]))
        if not is_deleted:
            return self._put(about.type, message.content_bytes())
        if about.type == ResourceType.DEVICE_MODEL:
            return self._catalogue.remove_model(key)
        return self._catalogue.remove_device(key)

    def _models_read(self, rows: list[bytes] | CallError) -> None:
        if isinstance(rows, CallError):
            self._ended(rows)
            return
        for text in rows:
            self._put(ResourceType.DEVICE_MODEL, text)
        self._meta.list_all(ResourceType.DEVICE, then=self._devices_read)

    def _devices_read(self, rows: list[bytes] | CallError) -> None:
        if isinstance(rows, CallError):
            self._ended(rows)
            return
        for text in rows:
            self._put(ResourceType.DEVICE, text)
        asked = self._module.message(ResourceType.DEVICE_TWIN, Operation.QUERY)
        self._module.request(ModuleName.DEVICETWIN, asked, TWIN_SECONDS, self._desired_read)

    def _desired_read(self, answer: Message | BeehiveError) -> None:
        if isinstance(answer, BeehiveError):
            self._ended(answer)
            return
        try:
            desired = answer.content_as(dict[str, dict[str, str]])
        except BeehiveError as error:  # devicetwin has no room, or has failed
            self._ended(error)
            return
        for device, values in desired.items():
            self._catalogue.put_desired(device, values)
        self._ended(None)

    def _ended(self, error: BeehiveError | None) -> None:
        held, self._held = self._held, {}
        waiting, self._waiting = self._waiting, []
        self.is_loaded = error is None
        if error is None:
            for message in held.values():
                self.changed(message)
        for then in waiting:
            then(error)

    def _put(self, kind: str, text: bytes) -> set[Mark]:
        try:
            if kind == ResourceType.DEVICE_MODEL:
                return self._catalogue.put_model(read_mapped_model(text))
            return self._catalogue.put_device(read_mapped_device(text))
        except (msgspec.DecodeError, UnicodeError) as error:
            _log.error("a stored %s cannot be read, and its mapper is not told: %s", kind, error)
            return set()
