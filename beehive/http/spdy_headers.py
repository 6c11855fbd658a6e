"""Header blocks of SPDY/3.1: names and values, compressed by zlib over all frames of a connection."""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

MOST_BYTES: Final = 64 * 1024
"""Most bytes of a header block when it is unpacked."""
_MOST_HEADERS: Final = 64

_WORDS: Final = (
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset", "accept-encoding",
    "accept-language", "accept-ranges", "age", "allow", "authorization", "cache-control", "connection", "content-base",
    "content-encoding", "content-language", "content-length", "content-location", "content-md5", "content-range",
    "content-type", "date", "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since",
    "if-none-match", "if-range", "if-unmodified-since", "last-modified", "location", "max-forwards", "pragma",
    "proxy-authenticate", "proxy-authorization", "range", "referer", "retry-after", "server", "te", "trailer",
    "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning", "www-authenticate", "method", "get",
    "status", "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin",
)  # fmt: skip
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


class HeaderBlockError(Exception):
    """A header block cannot be read."""


def counted(text: str) -> bytes:
    """Return a text, preceded by its length."""
    data = text.encode()
    return struct.pack(">I", len(data)) + data


DICTIONARY: Final = b"".join(map(counted, _WORDS)) + _REST.encode()
"""The dictionary with which decompression begins (SPDY/3 specification §2.6.10.1)."""


class HeaderPacker:
    """Makes header blocks without the dictionary. zlib's own header names this, and every zlib decoder reads them."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj()

    def pack(self, headers: Mapping[str, str]) -> bytes:
        """Return the block of these headers, whose names are in lower case."""
        block = struct.pack(">I", len(headers))
        block += b"".join(counted(name) + counted(value) for name, value in headers.items())
        return self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """Reads header blocks, in the order of their frames."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block.

        Raises:
            HeaderBlockError: it is damaged, or unpacks to more than `MOST_BYTES`; no later block can be read.
        """
        try:
            text = self._decompressor.decompress(block, MOST_BYTES + 1)
        except zlib.error as error:
            raise HeaderBlockError(str(error)) from None
        if len(text) > MOST_BYTES or self._decompressor.unconsumed_tail or self._decompressor.eof:
            raise HeaderBlockError(f"a header block of more than {MOST_BYTES} bytes, or the end of all")
        return _headers(text)


def _headers(text: bytes) -> dict[str, str]:
    count, place = _number(text, 0)
    if count > _MOST_HEADERS:
        raise HeaderBlockError(f"{count} headers")
    found: dict[str, str] = {}
    for _ in range(count):
        name, place = _text(text, place)
        found[name], place = _text(text, place)
    if place != len(text):
        raise HeaderBlockError("a header block with something behind its headers")
    return found


def _number(text: bytes, place: int) -> tuple[int, int]:
    if len(text) < place + 4:
        raise HeaderBlockError("a header block that ends early")
    return int.from_bytes(text[place : place + 4]), place + 4


def _text(text: bytes, place: int) -> tuple[str, int]:
    length, begin = _number(text, place)
    if len(text) < begin + length:
        raise HeaderBlockError("a header block that ends early")
    return text[begin : begin + length].decode("utf-8", "replace"), begin + length
