"""Compression of messages (permessage-deflate, RFC 7692). Pure: bytes in, bytes out.

Sent messages share one window, because a node repeats itself all day: a renewed lease takes a few dozen bytes. The
server is asked to compress each message alone (`server_no_context_takeover`). So a message over the limit can be
discarded and the next one still be read, and no message can make this side allocate more than the limit.

KubeEdge's cloud supports no extension; messages then travel uncompressed.
"""

import zlib
from typing import Final

import msgspec

from edgehub.errors import UpgradeError

OFFER: Final = "permessage-deflate; server_no_context_takeover"
"""The extension that the client offers. It names no window size: a compressor may always use a smaller window."""

_NAME: Final = "permessage-deflate"
_WINDOW_BITS: Final = 13
"""The compressor's window, 8 KiB, which a few messages fill; the compressor takes 50 KiB of memory in all."""
_MEMORY_LEVEL: Final = 5
_TAIL: Final = b"\x00\x00\xff\xff"


class Agreement(msgspec.Struct, frozen=True):
    """The extension parameters that the peer accepted."""

    forgets: bool
    """Whether each sent message must be compressed alone (`client_no_context_takeover`)."""


def agreement(answer: str) -> Agreement:
    """Parse the peer's header `Sec-WebSocket-Extensions`.

    Raises:
        UpgradeError: the header does not answer `OFFER`.
    """
    name, *parameters = (part.strip() for part in answer.split(";"))
    names = [parameter.partition("=")[0].strip() for parameter in parameters]
    known = {"server_no_context_takeover", "client_no_context_takeover", "server_max_window_bits"}
    wrong = name != _NAME or len(set(names)) != len(names) or not known.issuperset(names)
    if wrong or "server_no_context_takeover" not in names:
        raise UpgradeError(f"the peer chose {answer[:100]!r}, which was not offered")
    return Agreement("client_no_context_takeover" in names)


class Deflater:
    """The compressor of the messages of one connection.

    Args:
        agreed: the accepted parameters.
    """

    def __init__(self, agreed: Agreement) -> None:
        self._forgets = agreed.forgets
        self._compressor = _compressor()

    def deflate(self, payload: bytes) -> bytes:
        """Return the frame's payload, without the four constant bytes at its end (RFC 7692 §7.2.1)."""
        data = self._compressor.compress(payload) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        if self._forgets:
            self._compressor = _compressor()
        return data.removesuffix(_TAIL)


def inflate(data: bytes, limit: int) -> bytes | None:
    """Decompress at most `limit` bytes, and allocate no more; None for invalid data."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data + _TAIL, limit)
    except zlib.error:
        return None


def _compressor() -> "zlib._Compress":
    return zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -_WINDOW_BITS, _MEMORY_LEVEL)
