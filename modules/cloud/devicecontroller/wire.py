"""The contents of messages to nodes: membership, and answers."""

from http import HTTPStatus
from typing import Any

from beehive.names import OK
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.devicecontroller.later_values import Times
from modules.cloud.devicecontroller.records import DeviceRecord


def member(key: ObjectKey, device: DeviceRecord) -> JsonObject:
    """Return a device as in a membership; KubeEdge's edge answers one without `twin` with an error."""
    found = {"id": device_id(key), "name": key.name, "description": device.description, "twin": {}}
    return {name: value for name, value in found.items() if value != ""}


def removed(key: ObjectKey) -> JsonObject:
    """Return a device that the node no longer has."""
    return {"id": device_id(key), "name": key.name}


def membership(
    event_id: str, timestamp: int, added: list[JsonObject] | None, gone: list[JsonObject] | None
) -> JsonObject:
    """Return the change of a membership. Times are milliseconds since 1970."""
    return {"event_id": event_id, "timestamp": timestamp, "added_devices": added, "removed_devices": gone}


def detail(event_id: str, timestamp: int, devices: list[JsonObject]) -> JsonObject:
    """Return a whole membership: the node forgets all other devices."""
    return {"event_id": event_id, "timestamp": timestamp, "devices": devices}


def device_id(key: ObjectKey) -> str:
    """Return the id that nodes know a device by."""
    return f"{key.namespace}/{key.name}"


def answer(code: int, reason: str, later: Times | None = None) -> Any:
    """Return the answer to a report: `OK`, or an error with a code as of HTTP. KubeEdge's edge takes either as the end
    of the report. Because `ErrStatus` is in it, no edge acknowledges it.

    Args:
        code: of the answer.
        reason: of an error.
        later: times of stored values that are later than the times in the report, for its `twin` as in a report.
    """
    if code == HTTPStatus.OK:
        return OK
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "code": int(code)}
    twin = {
        name: {side: {"metadata": {"timestamp": each}} for side, each in times.items()}
        for name, times in (later or {}).items()
    }
    return {"code": int(code), "reason": reason, "ErrStatus": status, **({"twin": twin} if twin else {})}
