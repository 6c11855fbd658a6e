"""How the command line and the running stub talk over the control socket: four bytes of length, then that
much JSON.

Bounded on both sides. The first frame a client sends is a `Call`; it gets one `Reply`, or, to `watch`, one
for each change.
"""

import socket
import struct
from typing import Any, TypeVar

import msgspec

from beehive.errors import BeehiveError
from modules.edgecontroller.commands import Item

T = TypeVar("T")
TOKEN = "token"  # noqa: S105 - the name of a verb
METRICS = "metrics"
MAX_FRAME = 32 * 1024 * 1024
"""Bytes. A list of all objects of a kind must fit."""

_LENGTH = struct.Struct(">I")


class ControlError(BeehiveError):
    """The control socket, or what came over it, is not usable."""


class Call(msgspec.Struct, frozen=True):
    """What a client wants."""

    verb: str
    """`apply`, `get`, `remove` (see `modules.edgecontroller.commands.Verb`), `watch`,
    `token` or `metrics`."""
    body: dict[str, Any]
    """The command's fields."""


class Reply(msgspec.Struct, frozen=True):
    """What it gets."""

    items: list[Item] = []
    """Of a command: its items."""
    change: str = ""
    """Of a watch: ADDED, MODIFIED or DELETED, with one item."""
    token: str = ""
    """Of `token`. Never logged."""
    metrics: str = ""
    """Of `metrics`: Prometheus' text form."""
    error: str = ""
    """The command could not be carried out."""


def send_frame(connection: socket.socket, value: Any) -> None:
    """Writes one frame.

    Raises:
        ControlError: it would be too long.
        OSError: the connection is gone.
    """
    data = msgspec.json.encode(value)
    if len(data) > MAX_FRAME:
        raise ControlError("cannot send over the control socket", f"{len(data)} bytes", f"at most {MAX_FRAME} fit")
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive_frame(connection: socket.socket, kind: type[T]) -> T | None:
    """Reads one frame; None when the peer has closed the connection before it.

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
    """That many bytes, or none when the stream ends before the first."""
    data = bytearray()
    while len(data) < length:
        part = connection.recv(min(length - len(data), 1 << 16))
        if not part:
            if data:
                raise ControlError("cannot read from the control socket", "a frame", "it is cut off")
            return b""
        data += part
    return bytes(data)
