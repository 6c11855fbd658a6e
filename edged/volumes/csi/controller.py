"""The four controller operations on volumes that the cloud requests from a node over the tunnel (KubeEdge's CSI)."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from beehive import Actor, Operation
from beehive.decoding import decode_json
from edged.errors import PluginError
from edged.volumes.csi.drivers import CsiDrivers
from modules.apimachinery.attempts import AttemptError

if TYPE_CHECKING:
    from google.protobuf.message import Message

_log = logging.getLogger(__name__)

KUBEEDGE_DRIVER = "csi-hostpath"
"""The only driver that KubeEdge's edge calls."""
SECONDS = 55.0
"""Time-out of the driver: a little less than metamanager's for edged (60 s), so that its error arrives in time."""


class _Call(msgspec.Struct, frozen=True):
    method: str
    capability: str
    """Capability of the driver's controller; a driver without it is not called, and the answer is empty (KubeEdge)."""


_CALLS: Mapping[str, _Call] = {
    Operation.CREATE_VOLUME: _Call("CreateVolume", "CREATE_DELETE_VOLUME"),
    Operation.DELETE_VOLUME: _Call("DeleteVolume", "CREATE_DELETE_VOLUME"),
    Operation.CONTROLLER_PUBLISH_VOLUME: _Call("ControllerPublishVolume", "PUBLISH_UNPUBLISH_VOLUME"),
    Operation.CONTROLLER_UNPUBLISH_VOLUME: _Call("ControllerUnpublishVolume", "PUBLISH_UNPUBLISH_VOLUME"),
}

OPERATIONS = tuple(_CALLS)


class ControllerRequest(msgspec.Struct, frozen=True):
    """One operation."""

    operation: str
    content: bytes
    """CSI's request as JSON."""
    then: Callable[[dict[str, Any] | AttemptError], None]
    """Called with the answer as JSON, or an error; on the actor's thread."""


class CsiController(Actor):
    """The actor that carries out the cloud's operations one after the other; blocks as long as the driver takes.

    KubeEdge's driver in the cloud has no storage of its own: it sends each request to a node, as a message with CSI's
    request in protobuf's JSON, and the node's own driver carries it out. The answer is CSI's, in the JSON of Go's
    encoder. No message names the driver: KubeEdge's edge knows only `csi-hostpath`; here `driver_of` chooses.
    """

    def __init__(self, drivers: CsiDrivers) -> None:
        super().__init__()
        self._drivers = drivers

    def on_receive(self, message: object) -> None:
        """Carry out a ControllerRequest."""
        if not isinstance(message, ControllerRequest):
            return
        try:
            answer: dict[str, Any] | AttemptError = carry_out(self._drivers, message.operation, message.content)
        except AttemptError as error:
            _log.warning("%s: %s", message.operation, error)
            answer = error
        except Exception:  # noqa: BLE001 - one message must not end edged
            _log.exception("%s failed unexpectedly", message.operation)
            answer = PluginError(message.operation, "", "edged failed; its log says where")
        message.then(answer)


def carry_out(drivers: CsiDrivers, operation: str, content: bytes) -> dict[str, Any]:
    """Carry out one operation by the driver. Raises PluginError with the driver's words."""
    from google.protobuf.json_format import ParseDict, ParseError  # noqa: PLC0415 - with the first operation
    from msgspec import DecodeError  # noqa: PLC0415

    from protos.csi.v1 import api_pb2 as csi  # noqa: PLC0415 - see edged.volumes.csi.client

    call = _CALLS[operation]
    _, client = drivers.get(driver_of(drivers.names()))
    request = getattr(csi, f"{call.method}Request")()
    try:
        ParseDict(decode_json(content, dict), request, ignore_unknown_fields=True)
    except (ParseError, DecodeError, UnicodeError):
        # without the parser's words: they may quote a secret
        raise PluginError(operation, "", f"a {call.method}Request in protobuf's JSON is wanted") from None
    kind = getattr(csi, f"{call.method}Response")
    if call.capability not in client.controller_capabilities():
        return as_go(kind())
    return as_go(client.controller(call.method, request, kind, SECONDS))


def driver_of(names: list[str]) -> str:
    """Return `csi-hostpath` if it is registered, else the only registered driver. Raises PluginError if neither
    exists.
    """
    if KUBEEDGE_DRIVER in names:
        return KUBEEDGE_DRIVER
    if len(names) == 1:
        return names[0]
    found = ", ".join(names) or "none"
    hint = f"{KUBEEDGE_DRIVER} or a single driver is wanted; registered: {found}"
    raise PluginError("choose a storage driver", "", hint, retryable=True)


def as_go(message: "Message") -> dict[str, Any]:
    """Return a message as Go's encoding/json writes its struct, which is not protobuf's JSON: names as in the .proto
    file, 64-bit numbers as numbers.
    """
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: Any, value: Any) -> Any:
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        return dict(value)
    return [as_go(one) for one in value] if field.is_repeated else as_go(value)
