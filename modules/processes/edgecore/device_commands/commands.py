"""The commands `edgecore devices list|get|history`: they show the devices in the node's database."""

import argparse
from collections.abc import Collection

import msgspec

from beehive.clock import RealClock
from beehive.names import ResourceType
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.edge.devicetwin.past import entries
from modules.edge.devicetwin.state import Device, Side, Twin, decode
from modules.edge.dmi.mappers import MapperRow
from modules.processes.edgecore.device_commands.mappers import ended, mappers_of
from modules.processes.edgecore.store_commands.database import StoreReader, StoreReadError, opened
from modules.processes.edgecore.store_commands.shared import database_command, print_table, seconds_of


@database_command
def list_devices(chosen: argparse.Namespace) -> None:
    """List the devices."""
    with opened(chosen) as database:
        devices, mappers = _devices(database), mappers_of(database)
    silent = ended(mappers.values()) if chosen.database is None else frozenset()
    if chosen.json:
        print_json([_device_document(one) | _mapper(mappers.get(one.id), silent) for one in devices], indent=2)
        return
    rows = [
        (
            one.id,
            one.state or "-",
            one.last_online or "-",
            _mapper_shown(mappers.get(one.id), silent),
            str(len(_live(one))),
            "no" if _is_due(one) else "yes",
        )
        for one in devices
    ]
    print_table(("DEVICE", "STATE", "LAST ONLINE", "MAPPER", "PROPERTIES", "CLOUD KNOWS"), rows)


@database_command
def get(chosen: argparse.Namespace) -> None:
    """Print one device."""
    with opened(chosen) as database:
        device = _device(database, chosen.device)
    if chosen.json:
        print_json(_device_document(device), indent=2)
        return
    print_lines([f"{device.id}  {device.state or 'no state'}  {device.description}".rstrip()])
    if device.refusal:
        print_lines([f"its mapper refuses it: {device.refusal}"])
    rows = [
        (
            name,
            one.type,
            _value(one.expected),
            one.expected_by or "-",
            _value(one.actual),
            _when(one.actual),
            "no" if _due(one) else "yes",
        )
        for name, one in sorted(_live(device).items())
    ]
    print_table(("PROPERTY", "TYPE", "EXPECTED", "BY", "REPORTED", "AT", "CLOUD KNOWS"), rows)


@database_command
def history(chosen: argparse.Namespace) -> None:
    """Print the last values of the last day, reported and expected."""
    with opened(chosen) as database:
        device = _device(database, chosen.device)
    if chosen.property and chosen.property not in device.twins:
        there = ", ".join(sorted(_live(device))) or "none"
        raise StoreReadError("print the history", f"{device.id} {chosen.property}", f"its properties are: {there}")
    now = RealClock().now_ms()
    found = sorted(
        (one.at, name, one.value, one.by)
        for name, twin in device.twins.items()
        if chosen.property in ("", name)
        for past in (twin.past, twin.past_expected)
        for one in entries(past, now)
    )
    if chosen.json:
        print_json([_past(*one) for one in found], indent=2)
        return
    rows = [(_time(at), name, value, f"expected by {by}" if by else "reported") for at, name, value, by in found]
    print_table(("TIME", "PROPERTY", "VALUE", "WHAT"), rows)


def devices_of(chosen: argparse.Namespace) -> list[Device]:
    """Return the devices in the database that the arguments select.

    Raises:
        StoreReadError: the database cannot be read.
        ConfigError: the configuration with its path is wrong.
    """
    with opened(chosen) as database:
        return _devices(database)


def _past(at: int, name: str, value: str, by: str) -> dict[str, str]:
    told = {"time": _time(at), "property": name, "value": value, "what": "expected" if by else "reported"}
    return {**told, "by": by} if by else told


def _devices(database: StoreReader) -> list[Device]:
    return [_read(one.value) for one in database.objects(ResourceType.DEVICE_TWIN)]


def _device(database: StoreReader, device_id: str) -> Device:
    devices = {one.id: one for one in _devices(database)}
    if device_id not in devices:
        there = ", ".join(devices) or "none"
        raise StoreReadError("find a device", device_id, f"the node's devices are: {there[:500]}")
    return devices[device_id]


def _read(text: str) -> Device:
    try:
        return decode(text.encode())
    except (msgspec.DecodeError, UnicodeError) as error:
        raise StoreReadError("read a device", "the database", str(error)) from error


def _device_document(device: Device) -> dict[str, object]:
    return {
        "id": device.id,
        "description": device.description,
        "state": device.state,
        "lastOnlineTime": device.last_online,
        "cloudKnows": not _is_due(device),
        "properties": {
            name: {
                "type": one.type,
                "expected": one.expected.value if one.expected else None,
                "expectedBy": one.expected_by,
                "reported": one.actual.value if one.actual else None,
                "reportedAt": _when(one.actual),
                "cloudKnows": not _due(one),
            }
            for name, one in sorted(_live(device).items())
        },
    }


def _mapper(row: MapperRow | None, silent: Collection[str]) -> dict[str, object]:
    return {"mapper": row.name if row else "", "mapperEnded": row is not None and row.name in silent}


def _mapper_shown(row: MapperRow | None, silent: Collection[str]) -> str:
    if row is None:
        return "-"
    return f"{row.name} (does not answer)" if row.name in silent else row.name


def _live(device: Device) -> dict[str, Twin]:
    return {name: one for name, one in device.twins.items() if one.is_live}


def _due(twin: Twin) -> bool:
    return any(side is not None and side.due for side in (twin.expected, twin.actual))


def _is_due(device: Device) -> bool:
    return bool(device.state_due) or device.twins_are_due


def _value(side: Side | None) -> str:
    return (side.value or "-")[:200] if side is not None else "-"


def _when(side: Side | None) -> str:
    return _time(side.timestamp) if side is not None else "-"


def _time(milliseconds: int) -> str:
    return f"{seconds_of(milliseconds)}Z"
