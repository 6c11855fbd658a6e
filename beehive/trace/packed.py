"""Entries that are kept packed: one text of many, compressed, instead of thousands of small objects.

Much of what a node records says the same again: a pod is in the frame, in two deliveries, in the commit and in the
calls of the runtime. Compressed together they take a tenth of the memory, for six microseconds each. They are packed as
they are and not yet written as records, because which texts are secrets is known only when a trace is written.
"""

import logging
import pickle
import zlib
from collections.abc import Sequence
from typing import Final, Self

import msgspec

from beehive.delivery import Record as Delivery
from beehive.trace.entries import Kept, Noted
from beehive.trace.format import NoteKind

_log = logging.getLogger(__name__)

_LEVEL: Final = 1
"""Of zlib. A higher one takes twice the time for an eighth less."""

_PLAIN: Final = (msgspec.Raw, str, bytes, type(None))


class Block(msgspec.Struct, frozen=True, gc=False):
    """Some entries, in order."""

    newest: float
    """When the last of them happened, monotonic seconds."""
    size: int
    """Bytes of memory that they took."""
    number: int
    """How many they are."""
    data: bytes
    as_they_are: tuple[tuple[int, Kept], ...]
    """What cannot be packed, and where it stands among the others."""

    @classmethod
    def of(cls, entries: Sequence[Kept], size: int) -> Self:
        """Pack entries, at least one, that took `size` bytes."""
        packable = [entry for entry in entries if is_packable(entry)]
        data = _pickled(packable)
        if data is None:
            packable = [entry for entry in packable if _pickled(entry) is not None]
            data = _pickled(packable) or b""
        inside = set(map(id, packable))
        newest = max(entry.time for entry in entries)
        as_they_are = tuple((index, entry) for index, entry in enumerate(entries) if id(entry) not in inside)
        return cls(newest, size, len(entries), zlib.compress(data, _LEVEL), as_they_are)

    def entries(self) -> list[Kept]:
        """Them again."""
        entries = self._unpacked()
        for index, entry in self.as_they_are:
            entries.insert(index, entry)
        return entries

    def _unpacked(self) -> list[Kept]:
        try:
            return list(pickle.loads(zlib.decompress(self.data)))  # noqa: S301 - it has never left this process
        except Exception as error:  # noqa: BLE001 - no trace fails for one entry
            return [Noted(self.newest, NoteKind.LOST, f"packed entries: {type(error).__name__}")]


def is_packable(entry: Kept) -> bool:
    """Whether it is sure to come out again as it went in. An exception may not: it is made again from its text alone,
    whatever its class wants to be made of. Nor may a content that is an object of somebody's;
    a list of texts is what a store answers with.
    """
    if isinstance(entry, Delivery):
        content = entry.message.content
        return isinstance(content, _PLAIN) or (type(content) is list and all(type(each) is str for each in content))
    return not isinstance(getattr(entry, "error", None), BaseException)


def _pickled(what: Kept | list[Kept]) -> bytes | None:
    """None for what cannot be; what an object says to being packed is its own affair."""
    try:
        return pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - see above
        _log.debug("not packed: %s", type(error).__name__)
        return None
