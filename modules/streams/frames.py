"""Frames of the stream tunnel: one websocket message each, as KubeEdge's edgestream and cloudstream exchange them.

    frame = uvarint(connection) ‖ uvarint(type) ‖ data

The opcode is text although the data is binary, so data must never be decoded as UTF-8 on the way.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

MAX_DATA: Final = 1024 * 1024
"""Bytes of data that a frame may have. KubeEdge's reader drops the rest silently; a stream with a longer frame is
removed instead.
"""

SENT_DATA: Final = 32 * 1024
"""Bytes of data in the frames that this project sends."""

MAX_FRAME: Final = MAX_DATA + 20
"""Bytes of the longest frame, with its two numbers."""

_MOST_BYTES_OF_A_NUMBER: Final = 10
_LARGEST: Final = (1 << 64) - 1


class FrameType(IntEnum):
    """KubeEdge's types of frames."""

    LOGS = 0
    """The cloud asks for a container's log; data is JSON (`connect`)."""
    EXEC = 1
    """The cloud begins a command in a container."""
    METRICS = 2
    """The cloud asks for metrics or statistics."""
    DATA = 3
    """Bytes of a stream, in either direction."""
    REMOVE = 4
    """The stream has ended. KubeEdge sends no data and ignores it; here it is the reason, in UTF-8, or empty."""
    CLOSE = 5
    """The cloud ends the tunnel; connection 0, data is the error in UTF-8."""
    ATTACH = 6
    """The cloud attaches to a container's main process."""
    CREDIT = 64
    """The receiver of a stream takes this many more bytes; for connection 0, streams have credit (`credit`). Sent only
    to a peer of this project that has asked for it.
    """


CONNECTS: Final = frozenset({FrameType.LOGS, FrameType.EXEC, FrameType.METRICS, FrameType.ATTACH})
"""Types of the frames that open a stream."""


class FrameError(ValueError):
    """A message without a frame's head; the tunnel cannot go on, because the message's stream is unknown."""


class Frame(NamedTuple):
    """A frame: number of the stream, type, data."""

    connection: int
    """Chosen by the cloud, never used again; 0 for the tunnel itself."""
    kind: int
    """A `FrameType`, or a number that this version does not know and that a receiver ignores."""
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as the payload of a websocket message."""
        return _uvarint(self.connection) + _uvarint(self.kind) + self.data


def decode(payload: bytes) -> Frame:
    """Return the frame of a websocket message. Data over `MAX_DATA` is left to the caller.

    Raises:
        FrameError: the head is not complete, or one of its numbers has more than 64 bits.
    """
    connection, position = _read_uvarint(payload, 0)
    kind, position = _read_uvarint(payload, position)
    return Frame(connection, kind, payload[position:])


def data_frames(connection: int, data: bytes) -> Iterator[Frame]:
    """Yield the data frames of these bytes, of at most `SENT_DATA` each; none for no bytes."""
    for start in range(0, len(data), SENT_DATA):
        yield Frame(connection, FrameType.DATA, data[start : start + SENT_DATA])


def credit_frame(connection: int, size: int) -> Frame:
    """Return the frame that grants a stream's sender this many more bytes."""
    return Frame(connection, FrameType.CREDIT, _uvarint(size))


def credit_of(frame: Frame) -> int:
    """Return the bytes that a frame `CREDIT` grants.

    Raises:
        FrameError: its data is no number.
    """
    return _read_uvarint(frame.data, 0)[0]


def _uvarint(value: int) -> bytes:
    """Return a number as Go's `binary.PutUvarint` writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_uvarint(payload: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = 0
    for index, byte in enumerate(payload[position : position + _MOST_BYTES_OF_A_NUMBER]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > _LARGEST:
                raise FrameError("a number of the frame has more than 64 bits")
            return value, position + index + 1
    raise FrameError("the message ends within the frame's head, or is no frame")
