"""The devices in metamanager's store: one row for each, beside the Device and DeviceModel objects of the cloud."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from beehive import Module, ResourceType
from metamanager.client import AsyncMetaClient, CallError
from modules.apimachinery.device_objects import DeviceObject, ModelObject, read_device, read_model
from modules.edge.devicetwin.slots import Done
from modules.edge.devicetwin.state import Device, decode, encode

_log = logging.getLogger(__name__)
T = TypeVar("T")

SECONDS: Final = 30.0
"""Seconds for an answer of metamanager."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeError)


class Stored(msgspec.Struct, frozen=True):
    """The contents of the store that concern devices."""

    devices: list[Device]
    objects: list[DeviceObject]
    models: list[ModelObject]


class MetaStore:
    """A `DeviceStore` by messages to metamanager, which commits many devices in one transaction.

    Args:
        module: devicetwin.
    """

    def __init__(self, module: Module) -> None:
        self._meta = AsyncMetaClient(module, seconds=SECONDS)

    def save(self, device: Device, then: Done) -> None:
        """Insert or replace a device."""
        namespace, name = device.key
        self._meta.update(
            ResourceType.DEVICE_TWIN, namespace, name, encode(device), then=lambda result: then(_succeeded(result))
        )

    def remove(self, device_id: str, then: Done) -> None:
        """Remove a device."""
        namespace, name = Device(device_id).key
        self._meta.delete(ResourceType.DEVICE_TWIN, namespace, name, {}, then=lambda result: then(_succeeded(result)))

    def load(self, then: Callable[[Stored | CallError], None]) -> None:
        """Read all devices and their objects from the store; `then` is called with them, or with the reason why they
        cannot be read.

        An unreadable row is logged and skipped: the cloud sends its object again.
        """
        kinds = (ResourceType.DEVICE_TWIN, ResourceType.DEVICE, ResourceType.DEVICE_MODEL)
        found: list[list[bytes]] = []

        def ask() -> None:
            self._meta.list_all(kinds[len(found)], then=answered)

        def answered(rows: list[bytes] | CallError) -> None:
            if isinstance(rows, CallError):
                then(rows)
                return
            found.append(rows)
            if len(found) < len(kinds):
                ask()
            else:
                then(Stored(_read(decode, found[0]), _read(read_device, found[1]), _read(read_model, found[2])))

        ask()


def _read(read: Callable[[bytes], T], rows: list[bytes]) -> list[T]:
    values = []
    for row in rows:
        try:
            values.append(read(row))
        except UNREADABLE as error:
            _log.error("a stored device cannot be read and is left out: %s", error)
    return values


def _succeeded(result: object) -> bool:
    if isinstance(result, CallError):
        _log.error("a device is not stored: %s", result)
        return False
    return True
