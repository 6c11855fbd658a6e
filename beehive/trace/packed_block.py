"""Blocks of recorder entries, pickled and compressed.

Entries repeat each other: a pod is in the frame, in two deliveries, in the commit and in the calls of the runtime.
Compressed together they take a tenth of the memory, for six microseconds each. They are not converted to records yet,
because the secrets to remove are known only when a trace is written.
"""

import logging
import pickle
import zlib
from collections.abc import Sequence
from typing import Final, Self

import msgspec

from beehive.delivery import DeliveryRecord as Delivery
from beehive.trace.entries import AnyEntry, RecorderNote
from beehive.trace.format import NoteKind

_log = logging.getLogger(__name__)

_LEVEL: Final = 1
"""Level of zlib. A higher one takes twice the time for an eighth less memory."""

_PLAIN: Final = (msgspec.Raw, str, bytes, type(None))


class PackedBlock(msgspec.Struct, frozen=True, gc=False):
    """Some entries, in order."""

    newest: float
    """Time of the last entry, in monotonic seconds."""
    size: int
    """Bytes of memory that the entries took before packing."""
    number: int
    """Number of entries."""
    data: bytes
    as_they_are: tuple[tuple[int, AnyEntry], ...]
    """Entries that cannot be packed, with their places among all."""

    @classmethod
    def of(cls, entries: Sequence[AnyEntry], size: int) -> Self:
        """Pack entries, at least one, that take `size` bytes."""
        packable = [entry for entry in entries if is_packable(entry)]
        data = _pickled(packable)
        if data is None:
            packable = [entry for entry in packable if _pickled(entry) is not None]
            data = _pickled(packable) or b""
        inside = set(map(id, packable))
        newest = max(entry.time for entry in entries)
        as_they_are = tuple((index, entry) for index, entry in enumerate(entries) if id(entry) not in inside)
        return cls(newest, size, len(entries), zlib.compress(data, _LEVEL), as_they_are)

    def entries(self) -> list[AnyEntry]:
        """Unpack the entries."""
        entries = self._unpacked()
        for index, entry in self.as_they_are:
            entries.insert(index, entry)
        return entries

    def _unpacked(self) -> list[AnyEntry]:
        try:
            return list(pickle.loads(zlib.decompress(self.data)))  # noqa: S301 - it has never left this process
        except Exception as error:  # noqa: BLE001 - no trace fails for one entry
            return [RecorderNote(self.newest, NoteKind.LOST, f"packed entries: {type(error).__name__}")]


def is_packable(entry: AnyEntry) -> bool:
    """Return whether unpickling gives an equal entry.

    An exception may not: it is remade from its text alone, regardless of its constructor. Neither may a content that is
    an object of another package. A list of texts is packable: it is the content of a store's answers.
    """
    if isinstance(entry, Delivery):
        content = entry.message.content
        return isinstance(content, _PLAIN) or (type(content) is list and all(type(each) is str for each in content))
    return not isinstance(getattr(entry, "error", None), BaseException)


def _pickled(what: AnyEntry | list[AnyEntry]) -> bytes | None:
    """Pickle entries; return None if an object refuses."""
    try:
        return pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - an object may raise any error when it is pickled
        _log.debug("not packed: %s", type(error).__name__)
        return None
