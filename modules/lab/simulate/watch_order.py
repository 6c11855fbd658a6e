"""What the watches of several API servers with one database are told: the same changes, in the same order."""

from typing import Final

import msgspec

from modules.apimachinery.kinds import key_of, uid_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.watch_history import ObjectChanged
from modules.lab.simulate.world import Process, World

_MANAGED: Final = "managedFields"
_DELETED: Final = "DELETED"


class WatchOrder:
    """The check that the changes of a kind come in the order of their versions, and that a version is one change of one
    object, whichever API server tells it. A change that an API server does not know to be the only one
    (`Storage.unknown_until`) is left out: its watches of earlier versions are refused.

    Args:
        world: collects violations.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._changes: dict[int, tuple[str, bytes]] = {}
        """What each version is, and who told it first."""
        self._newest: dict[tuple[Process, str], int] = {}
        """The last version of each API server and kind."""

    def published(self, process: Process, cluster: Cluster, changed: ObjectChanged) -> None:
        """Note a change that an API server tells its watches."""
        kind, version = changed.kind, changed.version
        newest = self._newest.get((process, kind), 0)
        if version <= newest:
            self._violated(process, f"{_named(changed)} comes after version {newest}")
        self._newest[process, kind] = max(version, newest)
        unknown = cluster.storage.unknown_until
        if version <= max(unknown.get("", 0), unknown.get(kind, 0)):
            return
        told = _content_of(changed)
        who, known = self._changes.setdefault(version, (process.identity, told))
        if known != told:
            self._violated(process, f"{_named(changed)} is something else at {who}")

    def _violated(self, process: Process, text: str) -> None:
        self._world.violated("watches see the same order", f"{process.identity}: {text}")


def _named(changed: ObjectChanged) -> str:
    key = key_of(changed.object)
    return f"version {changed.version}, {changed.change} of {key.kind} {key.name} ({uid_of(changed.object)[:8]})"


def _content_of(changed: ObjectChanged) -> bytes:
    """Return an object without what watches may leave out."""
    metadata = {name: value for name, value in changed.object["metadata"].items() if name != _MANAGED}
    return msgspec.json.encode([changed.change == _DELETED, {**changed.object, "metadata": metadata}], order="sorted")
