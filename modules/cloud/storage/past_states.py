"""Earlier states of the objects, so that all parts of a list are of one version."""

from collections import defaultdict, deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey

CHANGES: Final = 1000
BYTES: Final = 2 * 1024 * 1024
"""Bounds of the changes of one kind that are kept, as of a watch's history: both hold the same objects."""
_ADOPTIONS: Final = 1000
COMPACTION_SECONDS: Final = 100.0
"""Seconds between two compactions."""
_COMPACTIONS: Final = 4
"""Compactions until a state is forgotten: it is known for five to seven minutes. The etcd of an API server forgets
states after five to ten.
"""
_NOTHING: Final[Mapping[ObjectKey, JsonObject | None]] = MappingProxyType({})


class ForgottenError(Exception):
    """A state is older than the kept changes, or this cloudcore has never known it."""


class _Change(msgspec.Struct, frozen=True, gc=False):
    version: int
    key: ObjectKey
    old: JsonObject | None
    size: int


class PastStates:
    """The latest changes of each kind, which lead back from the present state to earlier ones.

    Args:
        version: the first version; earlier states are not known.
    """

    def __init__(self, version: int) -> None:
        self._began = version
        self._changes: defaultdict[str, deque[_Change]] = defaultdict(deque)
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._forgotten: dict[str, int] = {}
        """By kind, the version of the newest change that is not kept."""
        self._adopted: deque[tuple[int, int]] = deque()
        """Versions between which other cloudcores have changed objects: of the states between them, none is known."""
        self._compactions: deque[int] = deque(maxlen=_COMPACTIONS)
        """The versions of the last compactions."""

    def record(self, version: int, key: ObjectKey, old: JsonObject | None, size: int) -> None:
        """Keep a change: the object before it (None: there was none), and the bytes of the one after it, of a deleted
        one its own.
        """
        changes = self._changes[key.kind]
        changes.append(_Change(version, key, old, size))
        self._bytes[key.kind] += changes[-1].size
        while len(changes) > CHANGES or self._bytes[key.kind] > BYTES:
            oldest = changes.popleft()
            self._bytes[key.kind] -= oldest.size
            self._forgotten[key.kind] = max(self._forgotten.get(key.kind, 0), oldest.version)

    def undo(self, kind: str) -> None:
        """Drop the newest change of a kind, as it was rolled back."""
        if self._changes[kind]:
            self._bytes[kind] -= self._changes[kind].pop().size

    def record_adoption(self, before: int, after: int) -> None:
        """Note that changes of other cloudcores were taken over, the last of each object only."""
        if after > before + 1:
            self._adopted.append((before, after))
        if len(self._adopted) > _ADOPTIONS:
            self._began = max(self._began, self._adopted.popleft()[1])

    def compact(self, version: int) -> None:
        """Forget the states before the version that was the present one some compactions ago.

        Args:
            version: the present one.
        """
        self._compactions.append(version)
        if len(self._compactions) < _COMPACTIONS:
            return
        self._began = max(self._began, self._compactions[0])
        for kind, changes in self._changes.items():
            while changes and changes[0].version <= self._began:
                self._bytes[kind] -= changes.popleft().size
        while self._adopted and self._adopted[0][1] <= self._began:
            self._adopted.popleft()

    def changed_since(self, kind: str, version: int, present: int) -> Mapping[ObjectKey, JsonObject | None]:
        """Return the objects of a kind that have changed since a version, as they were at it; None: there was none.

        Args:
            kind: as in keys.
            version: of the earlier state.
            present: the version of the present state.

        Raises:
            ForgottenError: the state is no longer known, or is one of the future.
        """
        if version == present:
            return _NOTHING
        is_kept = max(self._began, self._forgotten.get(kind, 0)) <= version < present
        if not is_kept or any(before < version < after for before, after in self._adopted):
            raise ForgottenError
        found: dict[ObjectKey, JsonObject | None] = {}
        for change in reversed(self._changes[kind]):
            if change.version <= version:
                break
            found[change.key] = change.old
        return found
