"""Websocket frames of messages in one piece (RFC 6455 §5.2)."""

import struct
from typing import Final

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C, where websockets was built with it

_TEXT: Final = 0x81
"""The last frame, or the only one, of a text message."""
_MESSAGES: Final = (_TEXT, 0x82)
"""The first bytes of frames that are whole messages, text or binary, uncompressed."""
_HEAD: Final = 2
"""Bytes of the shortest head."""
_MASK: Final = 4
_IS_MASKED: Final = 0x80
_SHORT: Final = 126
_MEDIUM: Final = 1 << 16


def text_head(size: int) -> bytes:
    """Return what stands before the bytes of a text message that a server sends in one frame."""
    if size < _SHORT:
        return bytes((_TEXT, size))
    return struct.pack("!BBH", _TEXT, _SHORT, size) if size < _MEDIUM else struct.pack("!BBQ", _TEXT, 127, size)


class FrameReader:
    """A reader of whole frames from the bytes of a client.

    Most messages are one masked frame, whose payload is all that a reader needs: the protocol of the library websockets
    makes thirty calls for it. Other frames are for that protocol. It gets them whole, so that both know where the next
    one begins, and whatever is no frame of a client.

    Args:
        most: bytes of a payload; the protocol gets a longer frame as it comes, and refuses it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.data: Final = bytearray()
        """The bytes of the unfinished frame."""
        self._is_passing = False
        """Whether all bytes are for the protocol from now on."""

    def next(self, *, is_apart: bool) -> tuple[bytes, bool] | None:
        """Return a message that came in one frame, and True, or bytes for the protocol, and False; None if there is no
        whole frame.

        Args:
            is_apart: whether a message may begin. While one is unfinished, or the connection is closing, the protocol
                gets each frame.
        """
        data = self.data
        if self._is_passing:
            return self._taken(len(data))
        if len(data) < _HEAD:
            return None
        size, begin = data[1] & 0x7F, _HEAD
        if size >= _SHORT:
            begin += 2 if size == _SHORT else 8
            if len(data) < begin:
                return None
            size = int.from_bytes(data[_HEAD:begin])
        begin += _MASK
        end = begin + size
        if not data[1] & _IS_MASKED or size > self._most:
            self._is_passing = True  # it fails the connection
            return self._taken(len(data))
        if len(data) < end:
            return None
        if data[0] not in _MESSAGES or not is_apart:
            return self._taken(end)
        message = apply_mask(data[begin:end], data[begin - _MASK : begin])
        del data[:end]
        return message, True

    def _taken(self, size: int) -> tuple[bytes, bool] | None:
        taken = bytes(self.data[:size])
        del self.data[:size]
        return (taken, False) if taken else None
