"""Compression of messages (permessage-deflate, RFC 7692), where the peer agrees to it. Pure: bytes in, bytes out.

What is sent shares one window from message to message, because a node says nearly the same all day: a renewed lease is
a few dozen bytes then. What comes is asked to stand alone (`server_no_context_takeover`), so that a message over the
limit can be thrown away, as without compression, and the next one still be read; and so that no message can make this
side hold more than the limit, whatever it says it is.

KubeEdge's cloud agrees to no extension, and is then spoken to as ever.
"""

import zlib
from typing import Final, NamedTuple

from edgehub.errors import UpgradeError

OFFER: Final = "permessage-deflate; server_no_context_takeover"
"""What is asked for. Nothing is said of windows: a compressor may always use a smaller one."""

_NAME: Final = "permessage-deflate"
_WINDOW_BITS: Final = 13
"""Of our own compressor: 8 KiB, which a few messages fill; it takes 50 KiB of memory in all."""
_MEMORY_LEVEL: Final = 5
_TAIL: Final = b"\x00\x00\xff\xff"


class Agreement(NamedTuple):
    """What the peer has agreed to."""

    forgets: bool
    """Whether each message that is sent must stand alone too."""


def agreement(answer: str) -> Agreement:
    """What a peer's `Sec-WebSocket-Extensions` says.

    Raises:
        UpgradeError: it is no answer to the offer.
    """
    name, *parameters = (part.strip() for part in answer.split(";"))
    names = [parameter.partition("=")[0].strip() for parameter in parameters]
    known = {"server_no_context_takeover", "client_no_context_takeover", "server_max_window_bits"}
    wrong = name != _NAME or len(set(names)) != len(names) or not known.issuperset(names)
    if wrong or "server_no_context_takeover" not in names:
        raise UpgradeError(f"the peer chose {answer[:100]!r}, which was not offered")
    return Agreement("client_no_context_takeover" in names)


class Deflater:
    """Makes what is sent smaller.

    Args:
        agreed: with the peer.
    """

    def __init__(self, agreed: Agreement) -> None:
        self._forgets = agreed.forgets
        self._compressor = _compressor()

    def deflate(self, payload: bytes) -> bytes:
        """The payload of the frame, without the four bytes that each would end in."""
        data = self._compressor.compress(payload) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        if self._forgets:
            self._compressor = _compressor()
        return data.removesuffix(_TAIL)


def inflate(data: bytes, limit: int) -> bytes | None:
    """At most `limit` bytes of what was compressed; None when it is no compressed data. Allocates no more than that."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data + _TAIL, limit)
    except zlib.error:
        return None


def _compressor() -> "zlib._Compress":
    return zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -_WINDOW_BITS, _MEMORY_LEVEL)
