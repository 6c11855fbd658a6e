"""The rows of one device in a node's database: its twins, its object, its model, and the mappers. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from beehive import Resource
from beehive.decoding import decode_json
from beehive.names import ResourceType
from modules.edge.devicetwin.objects import DeviceObject, ModelObject, read_device, read_model
from modules.edge.devicetwin.state import Device, decode
from modules.edge.devicetwin.store import UNREADABLE

T = TypeVar("T")

KINDS: Final = (ResourceType.DEVICE_TWIN, ResourceType.DEVICE, ResourceType.DEVICE_MODEL, ResourceType.DEVICE_MAPPER)
"""Kinds of the rows that are read."""


class _Protocol(msgspec.Struct, frozen=True, rename="camel"):
    protocol_name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    protocol: _Protocol | None = None


class _Device(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class _Mapper(msgspec.Struct, frozen=True):
    protocol: str = ""


class DeviceRows(NamedTuple):
    """The rows of one device in the database."""

    id: str
    device: Device | None
    """The twins; None if devicetwin does not have it."""
    object: DeviceObject | None
    """The cloud's object; None if it is not stored."""
    model: ModelObject | None
    protocol: str
    """The protocol of its mapper; empty if the object names none."""
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
    of_protocol = _read(lambda row: decode_json(row, _Device).spec.protocol, rows.get(objects))
    protocol = of_protocol.protocol_name if of_protocol is not None else ""
    model = ""
    if found is not None and found.model:
        model = f"{namespace}/{ResourceType.DEVICE_MODEL}/{found.model.rpartition('/')[2]}"
    return DeviceRows(
        device_id,
        _read(decode, rows.get(twins)),
        found,
        _read(read_model, rows.get(model)),
        protocol,
        bool(protocol) and any(protocol == _protocol_of(key, row) for key, row in rows.items()),
        tuple(sorted({_id(key) for key in rows} - {"", device_id})),
    )


def _protocol_of(key: str, row: bytes) -> str:
    if f"/{ResourceType.DEVICE_MAPPER}/" not in key:
        return ""
    mapper = _read(lambda text: decode_json(text, _Mapper), row)
    return mapper.protocol if mapper is not None else ""


def _id(key: str) -> str:
    resource = Resource.read(key)
    return f"{resource.namespace}/{resource.name}" if resource.type in KINDS[:2] else ""


def _read(read: Callable[[bytes], T], row: bytes | None) -> T | None:
    try:
        return read(row) if row is not None else None
    except UNREADABLE:
        return None
