"""Packs events in columns, the compact form that the page of `trace view` contains.

The index has one typed array for each field, and every text once in a table; the page unpacks it when it opens. Bodies
are packed in chunks that the page unpacks on demand. Both are compressed: 100,000 messages take 5 MB.
"""

from __future__ import annotations

import array
import gzip
import struct
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from modules.processes.edgecore.trace.event import Event, EventKind, causes_of, in_order, label

CHUNK_BYTES: Final = 512 * 1024
"""Bytes of a chunk of bodies: unpacked in a few milliseconds, and long enough to compress well."""

_LEVEL: Final = 6
_SORTS: Final = tuple(EventKind)


class TraceFacts(msgspec.Struct, frozen=True):
    """The facts about a trace as a whole that the page shows."""

    title: str
    node: str
    program: str
    began: float
    """Wall clock of the origin of time, seconds since the epoch."""


class PackedTrace(msgspec.Struct, frozen=True):
    """A trace ready to be put into a page; each part is compressed by gzip."""

    index: bytes
    bodies: tuple[bytes, ...]
    count: int


class _Bodies:
    """Bodies in compressed chunks; only the last chunk is uncompressed."""

    def __init__(self) -> None:
        self._closed: list[bytes] = []
        self._open = bytearray()

    def add(self, body: bytes) -> tuple[int, int]:
        """Add a body; return the number of its chunk and its offset there."""
        if self._open and len(self._open) + len(body) > CHUNK_BYTES:
            self._close()
        where = len(self._closed), len(self._open)
        self._open += body
        return where

    def all(self) -> tuple[bytes, ...]:
        if self._open:
            self._close()
        return tuple(self._closed)

    def _close(self) -> None:
        self._closed.append(_zipped(self._open))
        self._open = bytearray()


def pack(events: Iterable[Event], facts: TraceFacts) -> PackedTrace:
    """Pack the events of a trace. The bodies are compressed one by one; the events are in memory until the end."""
    bodies = _Bodies()
    kept = [(msgspec.structs.replace(event, body=b""), *bodies.add(event.body), len(event.body)) for event in events]
    kept.sort(key=lambda item: (item[0].sent, item[0].taken))
    index = _index(kept, facts)
    return PackedTrace(index=index, bodies=bodies.all(), count=len(kept))


def _index(kept: list[tuple[Event, int, int, int]], facts: TraceFacts) -> bytes:
    events = [item[0] for item in kept]
    lanes = in_order({event.source for event in events} | {event.target for event in events})
    texts: dict[str, int] = {}
    columns = _fields(events, {lane: number for number, lane in enumerate(lanes)}, texts)
    columns |= {
        "cause": array.array("i", causes_of(events)),
        "chunk": array.array("I", (item[1] for item in kept)),
        "start": array.array("I", (item[2] for item in kept)),
        "length": array.array("I", (item[3] for item in kept)),
    }
    about = {
        **msgspec.to_builtins(facts),
        "count": len(events),
        "lanes": [{"name": lane, "label": label(lane)} for lane in lanes],
        "sorts": [str(sort) for sort in _SORTS],
        "texts": list(texts),
    }
    return _zipped(_joined(about, columns))


def _fields(
    events: list[Event], lanes: dict[str, int], texts: dict[str, int]
) -> dict[str, array.array[float] | array.array[int]]:
    sorts = {sort: place for place, sort in enumerate(_SORTS)}
    columns: dict[str, array.array[float] | array.array[int]] = {
        "sent": array.array("d", (event.sent for event in events)),
        "taken": array.array("d", (event.taken for event in events)),
        "end": array.array("d", (event.end for event in events)),
        "sort": array.array("B", (sorts[event.kind] for event in events)),
        "source": array.array("H", (lanes[event.source] for event in events)),
        "target": array.array("H", (lanes[event.target] for event in events)),
        "failed": array.array("B", (event.failed for event in events)),
        "depth": array.array("i", (event.depth for event in events)),
        "size": array.array("I", (min(event.size, 0xFFFFFFFF) for event in events)),
    }
    for field in ("verb", "about", "id", "parent", "outcome", "reason"):
        columns[field] = array.array("I", (texts.setdefault(getattr(event, field), len(texts)) for event in events))
    columns["way"] = array.array("I", (texts.setdefault(event.route, len(texts)) for event in events))
    return columns


def _joined(about: dict[str, Any], columns: dict[str, array.array[float] | array.array[int]]) -> bytes:
    """Join the length of the description, the description in JSON, and the columns, each at a multiple of 8 bytes."""
    where, data = {}, bytearray()
    for name, column in columns.items():
        where[name] = [column.typecode, len(data)]
        data += column.tobytes()
        data += bytes(-len(data) % 8)
    description = msgspec.json.encode({**about, "columns": where})
    description += b" " * (-(4 + len(description)) % 8)
    return struct.pack("<I", len(description)) + description + bytes(data)


def _zipped(data: bytes | bytearray) -> bytes:
    return gzip.compress(data, _LEVEL, mtime=0)
