"""The frames of the control socket between the command line and cloudcore: four bytes of length, then JSON.

The length is bounded. A client sends one `ControlRequest`, and receives one `ControlReply`, or one for each change with
`watch`.
"""

import socket
import struct
from typing import Any, TypeVar

import msgspec

from beehive.errors import BeehiveError
from modules.cloud.apiserver.commands import CommandItem

T = TypeVar("T")
TOKEN = "token"  # noqa: S105 - the name of a verb
METRICS = "metrics"
MAX_FRAME = 32 * 1024 * 1024
"""Bytes. A list of all objects of a kind must fit."""

_LENGTH = struct.Struct(">I")


class ControlError(BeehiveError):
    """The control socket, or a frame from it, cannot be used."""


class ControlRequest(msgspec.Struct, frozen=True):
    """A request over the control socket."""

    verb: str
    """`apply`, `get`, `remove` (see `modules.cloud.apiserver.commands.Verb`), `watch`,
    `token` or `metrics`."""
    body: dict[str, Any]
    """The fields of the command."""


class ControlReply(msgspec.Struct, frozen=True):
    """A reply over the control socket."""

    items: list[CommandItem] = []
    """The items of a command."""
    change: str = ""
    """The type of a watched change: ADDED, MODIFIED or DELETED, with one item."""
    token: str = ""
    """The new token, never logged."""
    metrics: str = ""
    """The metrics in Prometheus' text format."""
    error: str = ""
    """The reason of a failure."""


def send_frame(connection: socket.socket, value: Any) -> None:
    """Write one frame.

    Raises:
        ControlError: the frame would be too long.
        OSError: the connection is gone.
    """
    data = msgspec.json.encode(value)
    if len(data) > MAX_FRAME:
        raise ControlError("cannot send over the control socket", f"{len(data)} bytes", f"at most {MAX_FRAME} fit")
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive_frame(connection: socket.socket, kind: type[T]) -> T | None:
    """Read one frame; return None when the peer has closed the connection.

    Raises:
        ControlError: the frame is too long, cut off, or not a `kind`.
        OSError: the connection is gone.
    """
    head = _exactly(connection, _LENGTH.size)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME:
        raise ControlError("cannot read from the control socket", f"{length} bytes", f"at most {MAX_FRAME} fit")
    data = _exactly(connection, length)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ControlError("cannot read from the control socket", "a frame", str(error)) from error


def _exactly(connection: socket.socket, length: int) -> bytes:
    """Return so many bytes, or none when the stream ends before the first."""
    data = bytearray()
    while len(data) < length:
        part = connection.recv(min(length - len(data), 1 << 16))
        if not part:
            if data:
                raise ControlError("cannot read from the control socket", "a frame", "it is cut off")
            return b""
        data += part
    return bytes(data)
