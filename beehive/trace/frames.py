"""Frames of a trace: bytes to records and back, and reading a stream of them with bounded memory."""

from collections.abc import Iterator
from typing import IO, Final

import msgspec

from beehive.trace.errors import TraceError
from beehive.trace.format import FRAME_BYTES, AnyRecord

BIN32: Final = 0xC6
"""msgpack's mark of a byte string with four bytes of length."""

_HEAD = 5

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyRecord] = msgspec.msgpack.Decoder(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    """The frame of a record.

    Raises:
        TraceError: it is longer than `FRAME_BYTES`, or holds what msgpack has no form for.
    """
    try:
        body = _encoder.encode(record)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TraceError("cannot encode a record", type(record).__name__, str(error)) from error
    if len(body) > FRAME_BYTES:
        raise TraceError("cannot encode a record", f"{len(body)} bytes are over the limit of {FRAME_BYTES}")
    return bytes((BIN32, *len(body).to_bytes(4, "big"))) + body


def decode(body: bytes) -> AnyRecord | None:
    """The record in a frame's body; None for one of a kind that this version does not know."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class Frames:
    """The frames of one file, in order, one in memory at a time.

    Args:
        file: open for reading bytes, at its beginning.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.offset = 0
        """Bytes up to the end of the last whole frame."""
        self.damage = ""
        """Why reading ended before the end of the file; empty when it did not."""

    def __iter__(self) -> Iterator[bytes]:
        """The bodies, up to the last whole frame."""
        while head := self._file.read(_HEAD):
            size = self._size(head)
            body = self._file.read(size) if size else b""
            if not self.damage and len(body) < size:
                self.damage = f"cut off in the frame at byte {self.offset}"
            if self.damage:
                return
            self.offset += _HEAD + size
            yield body

    def _size(self, head: bytes) -> int:
        size = int.from_bytes(head[1:], "big")
        if head[0] != BIN32 or size > FRAME_BYTES:
            self.damage = f"no frame at byte {self.offset}"
        elif len(head) < _HEAD:
            self.damage = f"cut off in the frame at byte {self.offset}"
        return 0 if self.damage else size
