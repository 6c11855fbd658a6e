"""Conversion of a mapper's report to an application's message, which devicetwin accepts. Pure."""

import base64
from typing import Any, Final, NamedTuple

import msgspec

from beehive.decoding import convert
from modules.edge.dmi.errors import MapperCallRefused, RefusalStatus
from protos.dmi.v1beta1 import api_pb2 as dmi

_TYPES: Final = frozenset({"string", "int", "integer", "float", "double", "boolean", "bytes"})
"""Types that devicetwin knows. For any other, such as STREAM, the device's model determines the type."""

_LONGEST_NAME: Final = 253


class DeviceRefusal(NamedTuple):
    """A report that the mapper does not take a device that it has got."""

    request: dmi.ReportDeviceStatesRequest
    why: str


def device_of(request: dmi.ReportDeviceStatusRequest | dmi.ReportDeviceStatesRequest) -> str:
    """Return `namespace/name` of the reported device. Raises MapperCallRefused."""
    name, namespace = request.deviceName, request.deviceNamespace or "default"
    for text in (name, namespace):
        if not 0 < len(text) <= _LONGEST_NAME or not text.isprintable() or set(text) & set("/+# "):
            raise MapperCallRefused(RefusalStatus.INVALID_ARGUMENT, "deviceName and deviceNamespace name no device")
    return f"{namespace}/{name}"


def twins_update(request: dmi.ReportDeviceStatusRequest, now: int, *, echo: bool) -> dict[str, Any]:
    """Return the `twin/update` for a report, with all its properties in one message.

    Args:
        request: the report.
        now: milliseconds since the Unix epoch.
        echo: whether the desired value in the report becomes the expected one, as in KubeEdge. Otherwise it confirms
            the expected one, if they are equal: a mapper that has not received the newest one yet undoes no change.

    Raises:
        MapperCallRefused: the report is empty.
    """
    twins: dict[str, Any] = {}
    for one in request.reportedDevice.twins:
        said: dict[str, Any] = {}
        if one.HasField("reported"):
            said["actual"] = {"value": one.reported.value}
            kind = one.reported.metadata.get("type", "").lower()
            if kind in _TYPES:
                said["metadata"] = {"type": kind}
        if one.HasField("observedDesired"):
            said["expected" if echo else "observed"] = {"value": one.observedDesired.value}
        if said:
            twins[one.propertyName] = said
    if not request.reportedDevice.twins:
        raise MapperCallRefused(RefusalStatus.INVALID_ARGUMENT, "ReportDeviceStatusRequest does not have twin data")
    if not twins:
        raise MapperCallRefused(RefusalStatus.INVALID_ARGUMENT, "no twin of the report has a reported value")
    return {"event_id": "", "timestamp": now, "twin": twins}


def state_update(request: dmi.ReportDeviceStatesRequest, now: int) -> dict[str, Any]:
    """Return the `state/update` for a report. Raises MapperCallRefused."""
    if not request.state or not request.deviceName:
        raise MapperCallRefused(RefusalStatus.INVALID_ARGUMENT, "ReportDeviceStatesRequest is invalid data")
    return {"event_id": "", "timestamp": now, "state": request.state}


def resource_for(device: str, action: str) -> str:
    """Return the resource of a message to devicetwin: base64url of its topic, as KubeEdge's.

    Args:
        device: `namespace/name`.
        action: `twin/update` or `state/update`.
    """
    return base64.urlsafe_b64encode(f"$hw/events/device/{device}/{action}".encode()).decode()


class TwinAnswer(msgspec.Struct, frozen=True):
    """devicetwin's answer to a report."""

    code: int = 0
    """0 if the report is stored."""
    reason: str = ""
    state: str = ""
    """The device's, if it is unknown."""


def twin_answer(content: Any) -> TwinAnswer:
    """Return devicetwin's answer; any other content than an object is a success."""
    try:
        return convert(content, TwinAnswer)
    except msgspec.ValidationError:
        return TwinAnswer()


def refused_by_twin(answer: TwinAnswer) -> MapperCallRefused | None:
    """Return the refusal in devicetwin's answer; None if the report is stored."""
    if not answer.code:
        return None
    kind = RefusalStatus.NOT_FOUND if answer.code == 404 else RefusalStatus.INVALID_ARGUMENT
    return MapperCallRefused(kind, answer.reason)
