"""Writes large contents once in a trace, and resolves the references to them.

A pod of 2 MB goes over the link, twice over the bus, into the store and, with its annotations, into every list of the
runtime, each second. So a content of `LARGE` bytes or more is written as a record of its own (`Content`) under its
hash, and records refer to the hash; a long string in several contents is written once too. References stay within one
part of a rotated trace, and within one run of an appended file.

A reference replaces the bytes of the content by a zero byte, which begins no JSON text, and a msgpack array of
pieces: literal bytes, and references as an extension type.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from beehive.decoding import msgpack_decoder
from beehive.trace.format import (
    FRAME_BYTES,
    Change,
    Content,
    CriCall,
    CriEvent,
    Delivered,
    LinkFrame,
    Record,
    StoreCommit,
)

LARGE: Final = 4096
"""Bytes above which a content, or a string in it, is written once."""

_KNOWN: Final = 16 * 1024
"""Contents that a writer remembers; beyond it, it forgets all of them."""

_REFERENCE: Final = 1
_COMPOSED: Final = b"\0"
_DEPTH: Final = 4
"""Levels of references: a frame has a content, which has strings."""
RECORD_BYTES: Final = 4 * FRAME_BYTES
"""Bytes of all contents of a record, which references of a few bytes could make any number of."""
_KEPT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of contents that a reader caches; other contents are read again."""

MISSING: Final = b'"(this content is not in what is left of the trace)"'

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CONTENT: Final = b'"content":'

Piece = bytes | msgspec.msgpack.Ext

_pieces = msgpack_decoder(list[bytes | msgspec.msgpack.Ext])


class ContentSplitter:
    """A splitter that replaces the large contents of records by references, for one file."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def records(self, record: Record) -> Iterator[Record | Content]:
        """Yield the contents that were not written before, then the record with references to them."""
        new: list[Content] = []
        short = mapped(record, lambda data: self._content(data, new), lambda frame: self._frame(frame, new))
        yield from new
        yield short

    def _content(self, data: bytes, new: list[Content]) -> bytes:
        if len(data) < LARGE:
            return data
        return _composed([self._reference(data, new, whole=False)])

    def _frame(self, data: bytes, new: list[Content]) -> bytes:
        """Replace a frame's content, which is the last member of the frame."""
        begin, end = data.find(_CONTENT) + len(_CONTENT), data.rfind(b"}")
        if len(data) < LARGE or begin < len(_CONTENT) or end - begin < LARGE:
            return self._content(data, new)
        return _composed([data[:begin], self._reference(data[begin:end], new, whole=False), data[end:]])

    def _reference(self, data: bytes, new: list[Content], *, whole: bool) -> msgspec.msgpack.Ext:
        """Return the reference to a content, and add the content to `new` if it was not written; `whole`: undivided."""
        key = hashlib.blake2b(data, digest_size=16).digest()
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known.add(key)
            pieces: list[Piece] = [data] if whole else self._in_pieces(data, new)
            new.append(Content(key, data if len(pieces) == 1 else _composed(pieces)))
        return msgspec.msgpack.Ext(_REFERENCE, key)

    def _in_pieces(self, data: bytes, new: list[Content]) -> list[Piece]:
        """Return a text in pieces, with references in place of its long strings."""
        pieces: list[Piece] = []
        end = 0
        for found in _STRING.finditer(data):
            if LARGE <= found.end() - found.start() < len(data):
                pieces += [data[end : found.start()], self._reference(found.group(), new, whole=True)]
                end = found.end()
        return [*pieces, data[end:]]


class ContentJoiner:
    """A joiner that resolves the references in the records of one file.

    Args:
        descriptor: of the file.
        decode: decodes the body of a frame.
    """

    def __init__(self, descriptor: int, decode: Callable[[bytes], object]) -> None:
        self._descriptor = descriptor
        self._decode = decode
        self._places: dict[bytes, tuple[int, int]] = {}
        self._kept: dict[bytes, bytes] = {}
        self._size = 0
        self._left = 0
        """Bytes that the record may still have."""

    def learn(self, content: Content, place: int, size: int) -> None:
        """Note that the body of a content's record is `size` bytes at offset `place` of the file."""
        self._places[content.key] = place, size
        self._kept.pop(content.key, None)

    def whole(self, record: Record) -> Record:
        """Return the record with its contents in place of the references, and `MISSING` beyond `RECORD_BYTES`."""
        self._left = RECORD_BYTES
        return mapped(record, self._whole, self._whole)

    def _whole(self, data: bytes) -> bytes:
        if not data.startswith(_COMPOSED):
            return data
        try:
            found = self._put_together(data, _DEPTH)
        except (msgspec.DecodeError, KeyError, OSError, ValueError):
            return MISSING
        self._left -= len(found)
        return found if self._left >= 0 else MISSING

    def _put_together(self, data: bytes, depth: int) -> bytes:
        """Join the pieces. Raises KeyError for a missing content, and ValueError for a form that no writer makes."""
        if not data.startswith(_COMPOSED):
            return data
        found, size = [], 0
        for piece in _pieces.decode(data[1:]):
            part = piece if isinstance(piece, bytes) else self._named(bytes(piece.data), depth)
            size += len(part)
            if size > FRAME_BYTES:
                raise ValueError(size)
            found.append(part)
        return b"".join(found)

    def _named(self, key: bytes, depth: int) -> bytes:
        if key not in self._kept:
            if not depth:
                raise ValueError(key)
            place, size = self._places[key]
            content = self._decode(os.pread(self._descriptor, size, place))
            if not isinstance(content, Content):
                raise ValueError(key)
            self._keep(key, self._put_together(content.data, depth - 1))
        return self._kept[key]

    def _keep(self, key: bytes, data: bytes) -> None:
        while self._kept and self._size + len(data) > _KEPT_BYTES:
            self._size -= len(self._kept.pop(next(iter(self._kept))))
        self._kept[key] = data
        self._size += len(data)


def content_bytes(record: Record) -> int:
    """Return the bytes of a record's contents."""
    sizes = [0]

    def measure(data: bytes) -> bytes:
        sizes.append(len(data))
        return data

    mapped(record, measure, measure)
    return sum(sizes)


def mapped(record: Record, content: Callable[[bytes], bytes], frame: Callable[[bytes], bytes]) -> Record:
    """Return a record with `content` applied to its contents, and `frame` to its frame."""
    replace = msgspec.structs.replace
    match record:
        case Delivered(message=message) if message.content:
            return replace(record, message=replace(message, content=content(message.content)))
        case LinkFrame():
            return replace(record, frame=frame(record.frame))
        case CriCall():
            return replace(record, request=content(record.request), answer=content(record.answer))
        case CriEvent():
            return replace(record, detail=content(record.detail))
        case StoreCommit():
            return replace(record, changes=tuple(_changed(change, content) for change in record.changes))
        case _:
            return record


def _changed(change: Change, content: Callable[[bytes], bytes]) -> Change:
    return msgspec.structs.replace(change, value=content(change.value))


def _composed(pieces: list[Piece]) -> bytes:
    return _COMPOSED + msgspec.msgpack.encode(pieces)
