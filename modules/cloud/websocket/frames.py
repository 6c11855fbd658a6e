"""Websocket frames of messages in one piece (RFC 6455 §5.2)."""

import struct
from typing import Final

_TEXT: Final = 0x81
"""The last frame, or the only one, of a text message."""
_SHORT: Final = 126
_MEDIUM: Final = 1 << 16


def text_head(size: int) -> bytes:
    """Return what stands before the bytes of a text message that a server sends in one frame."""
    if size < _SHORT:
        return bytes((_TEXT, size))
    return struct.pack("!BBH", _TEXT, 126, size) if size < _MEDIUM else struct.pack("!BBQ", _TEXT, 127, size)
