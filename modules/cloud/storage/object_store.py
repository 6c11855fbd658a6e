"""The objects that transactions read and change: the embedded API server's `Storage`, and edgecontroller's mirror."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.lister import Lister
from modules.cloud.storage.object_storage import NOTHING_DELETED, ObjectEvent, StoredChange


class ObjectStore(Lister, Protocol):
    """Objects with an event for each change, and a savepoint for rolling changes back."""

    @property
    def version(self) -> int:
        """The latest version that was given."""

    def next_version(self) -> int:
        """Give a new version for a row that is no object."""

    @property
    def events(self) -> Collection[ObjectEvent]:
        """The changes since `drain_events` was called."""

    def drain_events(self) -> list[ObjectEvent]:
        """Return the changes since the last call, in order."""

    def set_savepoint(self) -> None:
        """Set the savepoint of `roll_back`. All events must have been taken."""

    def roll_back(self) -> list[ObjectEvent]:
        """Undo the changes since the savepoint, and return them, newest first."""

    def adopt(
        self,
        found: Iterable[tuple[ObjectKey, JsonObject | None]],
        version: int,
        *,
        complete: bool,
        changes: Iterable[StoredChange] = (),
        deleted: Mapping[ObjectKey, int] = NOTHING_DELETED,
        has_gap: bool = False,
    ) -> None:
        """Apply the changes that other cloudcores have written to the database.

        Args:
            found: the changed objects; None for a deleted one.
            version: the newest version.
            complete: whether `found` holds all objects, so that any other is deleted.
            changes: each change in order; `found` has the other objects.
            deleted: the versions of deletions in `found`.
            has_gap: whether there may have been further changes.
        """
