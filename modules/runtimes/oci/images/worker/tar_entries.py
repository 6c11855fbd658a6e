"""The entries of a tar: POSIX ustar and pax, GNU's long names and sparse files, as Go's archive/tar reads them.

Python's `tarfile` is not used: it holds extended headers of any length in memory, and hides details that a layer needs.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from modules.runtimes.oci.images.worker import sparse
from modules.runtimes.oci.images.worker.errors import beyond_limit, invalid
from modules.runtimes.oci.images.worker.limits import LONGEST_PAX
from modules.runtimes.oci.images.worker.pax import NOTHING, PaxHeader, parse_extended
from modules.runtimes.oci.images.worker.tar_numbers import NANOSECONDS, decimal, number, seconds
from modules.runtimes.oci.images.worker.tar_stream import BLOCK, TarBlocks

FILE: Final = b"0"
HARD_LINK: Final = b"1"
SYMBOLIC_LINK: Final = b"2"
CHARACTER_DEVICE: Final = b"3"
BLOCK_DEVICE: Final = b"4"
DIRECTORY: Final = b"5"
FIFO: Final = b"6"

_FILES: Final = (FILE, b"\0", b"7", b"S")
_KNOWN: Final = (FILE, HARD_LINK, SYMBOLIC_LINK, CHARACTER_DEVICE, BLOCK_DEVICE, DIRECTORY, FIFO)
_GLOBAL, _EXTENDED, _LONG_NAME, _LONG_TARGET = b"g", b"x", b"L", b"K"
_ZEROS: Final = bytes(BLOCK)
_LARGEST: Final = 1 << 62
_LARGEST_ID: Final = (1 << 32) - 2
_MOST_BEFORE: Final = 16
"""Headers that may describe one entry."""


class Entry(NamedTuple):
    """One entry. Its body, `stored` bytes, follows in the stream."""

    name: bytes
    kind: bytes
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    target: bytes
    """The target of a link."""
    device: tuple[int, int]
    """Major and minor number."""
    xattrs: dict[str, bytes]
    stored: int
    """Bytes in the tar, without padding."""
    layout: sparse.SparseLayout | None
    """The layout of a sparse file."""


class _Before:
    """The facts about an entry in the headers before it."""

    def __init__(self) -> None:
        self.extended: PaxHeader = NOTHING
        self.name = b""
        self.target = b""


class TarEntries:
    """An iterator over the entries of a tar; each body must be read, or skipped, before the next entry is taken."""

    def __init__(self, stream: TarBlocks, most: int) -> None:
        self._stream = stream
        self._left = most

    def __iter__(self) -> Iterator[Entry]:
        before = _Before()
        described = 0
        while (header := self._header()) is not None:
            kind = header[156:157]
            if kind not in (_GLOBAL, _EXTENDED, _LONG_NAME, _LONG_TARGET):
                yield self._entry(header, before)
                before, described = _Before(), 0
                continue
            described += 1
            if described > _MOST_BEFORE:
                raise invalid("an entry of the tar has too many headers")
            self._record(kind, self._content(header), before)

    def _header(self) -> bytes | None:
        """Return the next header; None at the end, with or without blocks of zeros."""
        if self._stream.at_end():
            return None
        header = self._stream.exactly(BLOCK)
        if header == _ZEROS:
            return None
        self._left -= 1
        if self._left < 0:
            raise beyond_limit("the layer has too many entries")
        _check_sum(header)
        return header

    def _content(self, header: bytes) -> bytes:
        size = _size(number(header[124:136]))
        if size > LONGEST_PAX:
            raise beyond_limit(f"an extended header of the tar has more than {LONGEST_PAX} bytes")
        content = self._stream.exactly(size)
        self._stream.exactly(-size % BLOCK)
        return content

    def _record(self, kind: bytes, content: bytes, before: _Before) -> None:
        if kind == _EXTENDED:
            before.extended = parse_extended(content)
        elif kind == _LONG_NAME:
            before.name = content.partition(b"\0")[0]
        elif kind == _LONG_TARGET:
            before.target = content.partition(b"\0")[0]

    def _entry(self, header: bytes, before: _Before) -> Entry:
        records = before.extended.records
        name = records.get(b"GNU.sparse.name") or records.get(b"path") or before.name or _name(header)
        kind = header[156:157]
        stored = self._stored(header, records, kind)
        layout = self._layout(header, before.extended, stored)
        if layout is not None:
            stored -= layout.map_size
        return Entry(
            name,
            _kind(kind, name),
            number(header[100:108]) & 0o7777,
            _id(records.get(b"uid"), header[108:116]),
            _id(records.get(b"gid"), header[116:124]),
            seconds(records[b"mtime"]) if b"mtime" in records else number(header[136:148]) * NANOSECONDS,
            records.get(b"linkpath") or before.target or header[157:257].partition(b"\0")[0],
            _device(header, kind),
            before.extended.xattrs,
            stored,
            layout,
        )

    def _stored(self, header: bytes, records: dict[bytes, bytes], kind: bytes) -> int:
        """Return the size of the body; only files have one; the size in another kind's header does not count (as in
        Go).
        """
        if kind not in _FILES:
            return 0
        return _size(decimal(records[b"size"]) if b"size" in records else number(header[124:136]))

    def _layout(self, header: bytes, extended: PaxHeader, stored: int) -> sparse.SparseLayout | None:
        kind = header[156:157]
        if kind == b"S":
            return sparse.old_layout(header, self._stream, stored)
        return sparse.extended_layout(extended, self._stream, stored) if kind in _FILES else None


def _check_sum(header: bytes) -> None:
    wanted = number(header[148:156])
    field = sum(header[148:156])
    if sum(header) - field + 256 == wanted:
        return
    signed = sum(byte - 256 if byte > 127 else byte for byte in header[:148] + header[156:]) + 256
    if signed != wanted:
        raise invalid("a header of the tar is damaged: its checksum is wrong")


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _kind(kind: bytes, name: bytes) -> bytes:
    if kind in _FILES:
        return DIRECTORY if name.endswith(b"/") else FILE
    if kind not in _KNOWN:
        raise invalid(f"the tar has an entry of the unknown type {kind!r}")
    return kind


def _size(size: int) -> int:
    if not 0 <= size < _LARGEST:
        raise invalid("an entry of the tar has a negative or absurd size")
    return size


def _id(record: bytes | None, field: bytes) -> int:
    value = number(field) if record is None else decimal(record)
    if not 0 <= value <= _LARGEST_ID:
        raise invalid("an entry of the tar belongs to an impossible user or group")
    return value


def _device(header: bytes, kind: bytes) -> tuple[int, int]:
    if kind not in (CHARACTER_DEVICE, BLOCK_DEVICE):
        return 0, 0
    major, minor = number(header[329:337]), number(header[337:345])
    if not (0 <= major < 1 << 12 and 0 <= minor < 1 << 20):
        raise invalid("the tar has a device with an impossible number")
    return major, minor
