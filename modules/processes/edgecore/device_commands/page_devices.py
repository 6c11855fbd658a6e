"""The devices in the node's database, in the objects of the cloud, for the page."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.names import ResourceType
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.edge.devicetwin.past import entries
from modules.edge.devicetwin.state import Device, Side, Twin, decode
from modules.edge.dmi.mappers import MapperRow
from modules.page.own_devices import OwnDevice
from modules.processes.edgecore.device_commands.mappers import ended, mappers_of
from modules.processes.edgecore.store_commands.database import StoreReader

MOST: Final = 2000
"""Devices that are read."""


def own_devices(database: StoreReader, node: str, now: int) -> list[OwnDevice]:
    """Return the devices of a node.

    Args:
        database: of the node.
        node: its name.
        now: milliseconds since 1970.

    Raises:
        StoreReadError: the database cannot be read.
    """
    mappers = mappers_of(database)
    silent = ended(mappers.values())
    models = {_key(each): each for each in _objects(database, ResourceType.DEVICE_MODEL)}
    objects = {_key(each): each for each in _objects(database, ResourceType.DEVICE)}
    twins = {each.id: each for row in database.objects(ResourceType.DEVICE_TWIN) if (each := _twins(row.value))}
    found = []
    for key in sorted(objects.keys() | twins.keys())[:MOST]:
        twin = twins.get(key, Device(id=key))
        namespace, _, name = key.rpartition("/")
        made = {"metadata": {"namespace": namespace, "name": name}, "spec": {"properties": _named(twin)}}
        device = objects.get(key, made)
        model = models.get(f"{namespace}/{text_at(device, 'spec.deviceModelRef.name')}", {})
        past = {
            each: [(one.at / 1000, one.value) for one in entries(twin.twins[each].past, now)] for each in twin.twins
        }
        found.append(
            OwnDevice(
                _desired(device, twin, node), model, _status(device, twin), _mapper(mappers.get(key), silent), past
            )
        )
    return found


def _objects(database: StoreReader, kind: ResourceType) -> list[JsonObject]:
    """Return the objects of a kind, without rows that are no JSON objects."""
    found = []
    for row in database.objects(kind):
        try:
            found.append(decode_json(row.value.encode(), dict[str, Any]))
        except (msgspec.MsgspecError, UnicodeError):
            continue
    return found


def _twins(row: str) -> Device | None:
    try:
        return decode(row.encode())
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _key(obj: JsonObject) -> str:
    return f"{text_at(obj, 'metadata.namespace')}/{text_at(obj, 'metadata.name')}"


def _named(twin: Device) -> list[JsonObject]:
    return [{"name": name} for name, one in sorted(twin.twins.items()) if one.is_live]


def _desired(device: JsonObject, twin: Device, node: str) -> JsonObject:
    """Return a Device with the values that are desired on the node, which its owner may have set."""
    properties = []
    for each in objects_at(device, "spec.properties"):
        one = twin.twins.get(text_at(each, "name"))
        value = one.expected.value if one is not None and one.expected is not None else None
        properties.append({**each, "desired": {"value": value}} if value is not None else each)
    return {**device, "spec": {**map_at(device, "spec"), "nodeName": node, "properties": properties}}


def _status(device: JsonObject, twin: Device) -> JsonObject:
    """Return a DeviceStatus with the values that the node has."""
    refused = {"type": "Served", "status": "False", "reason": "RefusedByMapper", "message": twin.refusal}
    return {
        "metadata": {"ownerReferences": [{"uid": text_at(device, "metadata.uid")}]},
        "status": {
            "twins": [_sides(name, one) for name, one in twin.twins.items() if one.is_live],
            "state": twin.state,
            "lastOnlineTime": twin.last_online,
            "conditions": [refused] if twin.refusal else [],
        },
    }


def _sides(name: str, twin: Twin) -> JsonObject:
    sides: Mapping[str, Side | None] = {
        "reported": twin.actual,
        "observedDesired": twin.expected if twin.expected is not None and twin.expected.seen else None,
    }
    said = {
        field: {"value": side.value, "metadata": {"timestamp": str(side.timestamp)}}
        for field, side in sides.items()
        if side is not None and side.value is not None
    }
    return {"propertyName": name, **said}


def _mapper(row: MapperRow | None, silent: frozenset[str]) -> str:
    if row is None:
        return "no mapper has registered for its protocol on this node"
    return f"its mapper {row.name} {'does not answer' if row.name in silent else 'runs'}"
