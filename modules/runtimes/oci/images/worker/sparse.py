"""Sparse files of a tar: GNU's old format, and its formats 0.0, 0.1 and 1.0 in extended headers."""

from typing import NamedTuple

from modules.runtimes.oci.images.worker.errors import beyond_limit, invalid
from modules.runtimes.oci.images.worker.limits import LONGEST_PAX
from modules.runtimes.oci.images.worker.pax import PaxHeader
from modules.runtimes.oci.images.worker.tar_numbers import decimal, number
from modules.runtimes.oci.images.worker.tar_stream import BLOCK, TarBlocks

_MOST_PARTS = LONGEST_PAX // 4
_LARGEST = 1 << 62
_FIELD = 12
_IN_HEADER, _IN_FURTHER = 4, 21


class SparseLayout(NamedTuple):
    """The places of the stored bytes in a sparse file."""

    size: int
    """Bytes of the file with its holes."""
    parts: tuple[tuple[int, int], ...]
    """Offset and length of the stored parts, in order."""
    map_size: int
    """Bytes of the map, which stands before the content in format 1.0."""


def old_layout(header: bytes, stream: TarBlocks, stored: int) -> SparseLayout:
    """Return the layout in a header of type "S" and the blocks behind it. Raises ImageWorkError."""
    numbers = _fields(header[386:482], _IN_HEADER)
    more = header[482] != 0
    while more:
        block = stream.exactly(BLOCK)
        numbers += _fields(block[:504], _IN_FURTHER)
        more = block[504] != 0
        if len(numbers) > 2 * _MOST_PARTS:
            raise beyond_limit("a sparse file of the layer has too many parts")
    return _checked(number(header[483:495]), numbers, 0, stored)


def extended_layout(extended: PaxHeader, stream: TarBlocks, stored: int) -> SparseLayout | None:
    """Return the layout in an extended header, None for an ordinary file. Raises ImageWorkError."""
    records = extended.records
    if records.get(b"GNU.sparse.major") == b"1":
        numbers, map_size = _map_before_content(stream, stored)
        return _checked(decimal(records.get(b"GNU.sparse.realsize", b"")), numbers, map_size, stored)
    if b"GNU.sparse.map" in records:
        numbers = [decimal(each) for each in records[b"GNU.sparse.map"].split(b",")]
        return _checked(_real_size(records), numbers, 0, stored)
    if extended.holes:
        return _checked(_real_size(records), [decimal(each) for each in extended.holes], 0, stored)
    return None


def _real_size(records: dict[bytes, bytes]) -> int:
    return decimal(records.get(b"GNU.sparse.size", b""))


def _fields(block: bytes, most: int) -> list[int]:
    found: list[int] = []
    for at in range(0, 2 * most * _FIELD, 2 * _FIELD):
        if block[at] == 0:
            break
        found += (number(block[at : at + _FIELD]), number(block[at + _FIELD : at + 2 * _FIELD]))
    return found


def _map_before_content(stream: TarBlocks, stored: int) -> tuple[list[int], int]:
    """Read decimal lines in whole blocks: the number of parts, then offset and length of each."""
    text, size, wanted = b"", 0, 1
    lines: list[bytes] = []
    while len(lines) < wanted:
        if size + BLOCK > min(stored, LONGEST_PAX) or len(text) > BLOCK:
            raise invalid("the map of a sparse file is damaged or too long")
        *found, text = (text + stream.exactly(BLOCK)).split(b"\n")
        size += BLOCK
        lines += found
        if lines:
            wanted = 1 + 2 * min(decimal(lines[0]), _MOST_PARTS)
    return [decimal(each) for each in lines[1:wanted]], size


def _checked(size: int, numbers: list[int], map_size: int, stored: int) -> SparseLayout:
    parts = tuple(zip(numbers[::2], numbers[1::2], strict=False))
    at = total = 0
    for offset, length in parts:
        if offset < at or length < 0:
            raise invalid("the parts of a sparse file overlap")
        at = offset + length
        total += length
    if len(numbers) % 2 or not at <= size < _LARGEST or total != stored - map_size:
        raise invalid("the map of a sparse file does not fit its content")
    return SparseLayout(size, parts, map_size)
