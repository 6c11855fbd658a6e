"""The mapper of each device in the node's database."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from beehive.names import ResourceType
from modules.edge.devicetwin.state import decode
from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.liveness import is_served
from modules.edge.dmi.mappers import MapperRow, decode_mapper
from modules.edge.dmi.objects import MappedDevice, MappedModel, protocol_of, read_mapped_device, read_mapped_model
from modules.processes.edgecore.store_commands.database import StoreReader

T = TypeVar("T")


class MappedParts(NamedTuple):
    """A device with its model, protocol and mapper."""

    device: MappedDevice
    model: MappedModel | None
    protocol: str
    mapper: str
    """Empty if none has registered."""


def parts_of(database: StoreReader, device_id: str) -> MappedParts | None:
    """Return a device with its model and mapper; None if the cloud has not sent its Device."""
    devices = _read(database, ResourceType.DEVICE, read_mapped_device)
    device = next((one for one in devices if one.id == device_id), None)
    if device is None:
        return None
    models = _read(database, ResourceType.DEVICE_MODEL, read_mapped_model)
    model = next((one for one in models if one.id == device.model), None)
    protocol = protocol_of(device, model)
    mappers = _read(database, ResourceType.DEVICE_MAPPER, decode_mapper)
    return MappedParts(device, model, protocol, next((one.name for one in mappers if one.protocol == protocol), ""))


def mappers_of(database: StoreReader) -> dict[str, MapperRow]:
    """Return the mapper of each device, by `namespace/name`: the mapper registered for its protocol."""
    by_protocol = {one.protocol: one for one in _read(database, ResourceType.DEVICE_MAPPER, decode_mapper)}
    if not by_protocol:
        return {}
    models = {one.id: one for one in _read(database, ResourceType.DEVICE_MODEL, read_mapped_model)}
    devices = _read(database, ResourceType.DEVICE, read_mapped_device)
    found = {one.id: by_protocol.get(protocol_of(one, models.get(one.model))) for one in devices}
    return {device: mapper for device, mapper in found.items() if mapper is not None}


def ended(mappers: Iterable[MapperRow]) -> frozenset[str]:
    """Return the names of the mappers on whose sockets nobody listens."""
    sockets = {one.name: one.socket for one in mappers}
    return frozenset(name for name, path in sockets.items() if path is not None and not is_served(path))


def without_mapper(database: StoreReader) -> dict[str, list[str]]:
    """Return the devices whose protocol has no mapper, by protocol. A device that an application reports needs none,
    and is left out.
    """
    served = {one.protocol for one in _read(database, ResourceType.DEVICE_MAPPER, decode_mapper)}
    models = {one.id: one for one in _read(database, ResourceType.DEVICE_MODEL, read_mapped_model)}
    twins = _read(database, ResourceType.DEVICE_TWIN, decode)
    reported = {one.id for one in twins if any(twin.actual is not None for twin in one.twins.values())}
    found: dict[str, list[str]] = {}
    for device in _read(database, ResourceType.DEVICE, read_mapped_device):
        protocol = protocol_of(device, models.get(device.model))
        if protocol and protocol not in served and device.id not in reported:
            found.setdefault(protocol, []).append(device.id)
    return found


def _read(database: StoreReader, kind: ResourceType, read: Callable[[bytes], T]) -> Iterator[T]:
    """Yield the objects of a type, without objects that dmi cannot read either."""
    for row in database.objects(kind):
        try:
            yield read(row.value.encode())
        except (msgspec.DecodeError, UnicodeError, MapperCallRefused):
            continue
