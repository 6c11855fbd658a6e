"""The rows of one device in a node's database: its twins, its object, its model, and the mappers. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from beehive import Resource
from beehive.names import ResourceType
from modules.apimachinery.device_objects import DeviceObject, ModelObject, read_device, read_model
from modules.edge.devicetwin.state import Device, decode
from modules.edge.devicetwin.store import UNREADABLE
from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.mappers import decode_mapper
from modules.edge.dmi.objects import protocol_of, read_mapped_device, read_mapped_model

T = TypeVar("T")

KINDS: Final = (ResourceType.DEVICE_TWIN, ResourceType.DEVICE, ResourceType.DEVICE_MODEL, ResourceType.DEVICE_MAPPER)
"""Kinds of the rows that are read."""


class DeviceRows(NamedTuple):
    """The rows of one device in the database."""

    id: str
    device: Device | None
    """The twins; None if devicetwin does not have it."""
    object: DeviceObject | None
    """The cloud's object; None if it is not stored."""
    model: ModelObject | None
    protocol: str
    """The protocol of its mapper; empty if the object and its model name none."""
    has_mapper: bool
    """Whether a mapper of that protocol has registered."""
    others: tuple[str, ...]
    """Ids of other devices."""


def rows_of(device_id: str, rows: Mapping[str, bytes]) -> DeviceRows:
    """Return the rows of a device; a row that cannot be read counts as absent.

    Args:
        device_id: `namespace/name`.
        rows: rows of `KINDS` by their keys.
    """
    namespace, _, name = device_id.rpartition("/")
    twins, objects = f"{namespace}/{ResourceType.DEVICE_TWIN}/{name}", f"{namespace}/{ResourceType.DEVICE}/{name}"
    found = _read(read_device, rows.get(objects))
    model = ""
    if found is not None and found.model:
        model = f"{namespace}/{ResourceType.DEVICE_MODEL}/{found.model.rpartition('/')[2]}"
    mapped = _read(read_mapped_device, rows.get(objects))
    protocol = protocol_of(mapped, _read(read_mapped_model, rows.get(model))) if mapped is not None else ""
    return DeviceRows(
        device_id,
        _read(decode, rows.get(twins)),
        found,
        _read(read_model, rows.get(model)),
        protocol,
        bool(protocol) and protocol in _served(rows),
        tuple(sorted({_id(key) for key in rows} - {"", device_id})),
    )


def _served(rows: Mapping[str, bytes]) -> set[str]:
    """Return the protocols of the registered mappers."""
    found = [_read(decode_mapper, row) for key, row in rows.items() if f"/{ResourceType.DEVICE_MAPPER}/" in key]
    return {mapper.protocol for mapper in found if mapper is not None}


def _id(key: str) -> str:
    resource = Resource.read(key)
    return f"{resource.namespace}/{resource.name}" if resource.type in KINDS[:2] else ""


def _read(read: Callable[[bytes], T], row: bytes | None) -> T | None:
    try:
        return read(row) if row is not None else None
    except (*UNREADABLE, MapperCallRefused):
        return None
