"""What must hold of every change of a node's store: no older state over a newer one, no newer state refused, and what
was deleted does not come back.
"""

from metamanager.rows import Row
from modules.simulate.world import World

_OBJECTS = ("/pod/", "/configmap/", "/secret/")

State = tuple[str, int]
"""Uid and resourceVersion."""


class RowWatch:
    """See the module's docstring. It outlives the node's processes, as the store does.

    Args:
        world: takes violations.
        node: whose store it is.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._durable: dict[str, State] = {}
        self._deleted: set[tuple[str, str]] = set()
        """Keys and uids of what was deleted for good."""
        self.begin()

    def begin(self) -> None:
        """What was not committed is not there."""
        self._now = dict(self._durable)
        self._deleted_now = set(self._deleted)

    def committed(self) -> None:
        """What was changed is there for good."""
        self._durable, self._deleted = dict(self._now), set(self._deleted_now)

    def lost(self) -> None:
        """The store is gone."""
        self._durable.clear()
        self._deleted.clear()
        self.begin()

    def put(self, row: Row, *, taken: bool) -> None:
        """An object was offered; whether it is there now."""
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
            self._now[row.key] = (row.uid, row.resource_version)

    def deleted(self, key: str, uid: str) -> None:
        """An object was deleted; without a uid: whichever there was."""
        there = self._now.get(key)
        if there is not None and uid in ("", there[0]):
            del self._now[key]
        if uid:
            self._deleted_now.add((key, uid))

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")


def _named(row: Row) -> str:
    return f"version {row.resource_version} of {row.key} ({row.uid[:8]})"
