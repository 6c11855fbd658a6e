"""Invariants of the changes of a node's store."""

from metamanager.rows import Row
from modules.lab.simulate.world import World

_OBJECTS = ("/pod/", "/configmap/", "/secret/")

State = tuple[str, int]
"""Uid and resourceVersion."""


class RowWatch:
    """The check that no older state replaces a newer one, no newer state is refused, and no deleted object comes back,
    nor one that has given way to another of its name.

    It outlives the node's processes, as the store does.

    Args:
        world: collects violations.
        node: node of the store.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._durable: dict[str, State] = {}
        self._deleted: set[tuple[str, str]] = set()
        """Keys and uids of objects that were deleted for good, or have a successor."""
        self.begin()
        self.trusts_deletions = True
        """Whether deleted rows must not come back."""

    def begin(self) -> None:
        """Drop uncommitted changes."""
        self._now = dict(self._durable)
        self._deleted_now = set(self._deleted)

    def committed(self) -> None:
        """Make the changes durable."""
        self._durable, self._deleted = dict(self._now), set(self._deleted_now)

    def lost(self) -> None:
        """Forget everything: the store no longer exists."""
        self._durable.clear()
        self._deleted.clear()
        self.begin()

    def forget_deletions(self) -> None:
        """Forget the objects that were deleted for good: the cloud may have them again."""
        self.trusts_deletions = True
        self._deleted.clear()
        self._deleted_now.clear()

    def distrust_deletions(self) -> None:
        """Take no deletion for good until `forget_deletions`: the cloud does not know what it has."""
        self.forget_deletions()
        self.trusts_deletions = False

    def versions(self) -> dict[str, int]:
        """Return the versions of the objects that are stored for good, by uid."""
        return dict(self._durable.values())

    def put(self, row: Row, *, taken: bool) -> None:
        """Check an offered object; `taken` if the store accepted it."""
        if not (row.uid and row.resource_version and any(kind in row.key for kind in _OBJECTS)):
            return
        before = self._now.get(row.key)
        same = before is not None and before[0] == row.uid
        is_older = before is not None and row.resource_version < before[1]
        if taken and same and is_older:
            self._violated("no older state over a newer one", f"{_named(row)} was stored over version {before}")
        elif not taken and not (same and is_older):
            self._violated("no older state over a newer one", f"{_named(row)} was refused; there is {before}")
        if taken and (row.key, row.uid) in self._deleted_now:
            self._violated("what was deleted does not come back", f"{_named(row)} was stored after its deletion")
        if taken:
            if before is not None and not same and self.trusts_deletions:
                self._deleted_now.add((row.key, before[0]))
            self._now[row.key] = (row.uid, row.resource_version)

    def deleted(self, key: str, uid: str) -> None:
        """Note a deletion; an empty uid deletes any object of the key."""
        there = self._now.get(key)
        if there is not None and uid in ("", there[0]):
            del self._now[key]
        if uid and self.trusts_deletions:
            self._deleted_now.add((key, uid))

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")


def _named(row: Row) -> str:
    return f"version {row.resource_version} of {row.key} ({row.uid[:8]})"
