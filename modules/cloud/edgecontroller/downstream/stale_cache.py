"""What another cloudcore may have sent a node, and the watches of this one have not told yet."""

from collections import defaultdict
from collections.abc import Callable

from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.lister import Revision
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.object_sync import ObjectSync


class StaleCache:
    """The objects of nodes of which this cloudcore's cache has no version, or an older one than the node, and what may
    not be sent before its watches have caught up.

    Args:
        object_syncs: the ObjectSyncs of the connected nodes.
        newest: the versions that watches have reported.
        live: returns the cached revision of an object with a uid.
    """

    def __init__(
        self, object_syncs: ObjectSyncs, newest: NewestVersions, live: Callable[[ObjectKey, str], Revision | None]
    ) -> None:
        self._object_syncs = object_syncs
        self._newest = newest
        self._live = live
        self.ahead: dict[str, dict[ObjectKey, str]] = {}
        """By node, the uids of the objects that it has and that no watch has told of yet."""
        self._held: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        """By node, the objects that wait."""
        self._untold: dict[str, set[str]] = {}
        """By node, the uids of the objects that no watch had told of at the last look."""

    def forget(self, node: str) -> None:
        """Forget a node that has disconnected."""
        self.ahead.pop(node, None)
        self._held.pop(node, None)
        self._untold.pop(node, None)

    def records_loaded(self, node: str) -> None:
        """Note which of a node's objects no watch has told of yet: another cloudcore has sent them."""
        ahead = self._newest.ahead(self._object_syncs.of(node))
        if ahead:
            self.ahead[node] = ahead
        else:
            self.ahead.pop(node, None)

    def answered(self, node: str, key: ObjectKey, uid: str) -> None:
        """Note that a node, which has an ObjectSync of it, was answered an object that the cache lacks."""
        ahead = self.ahead.setdefault(node, {})
        ahead[key] = uid
        if len(ahead) > 2 * len(self._object_syncs.of(node)):
            self.records_loaded(node)  # most are of pods that have gone

    def is_behind(self, node: str, kind: str) -> bool:
        """Return whether a node has acknowledged a deletion of a kind that the watch has not told yet."""
        return self._newest.is_before(kind, self._object_syncs.deletion_of(node, kind))

    def may_have_newer(self, node: str, key: ObjectKey) -> bool:
        """Return whether a node may have been sent the deletion of an object, or a newer one of the name, which the
        watch has not told yet.
        """
        return key in self.ahead.get(node, ()) or self.is_behind(node, key.kind)

    def may_be_deleted(self, node: str, key: ObjectKey, version: int, sync: ObjectSync | None) -> bool:
        """Return whether a node may have deleted an object of which the cache has a version: it is older than what was
        sent, or, where there is no record of it, than a deletion, and the watch has not told that yet.
        """
        if sync is not None:
            return version < sync.sent and self._newest.is_behind(sync)
        return version <= self._object_syncs.deletion_of(node, key.kind) and self.is_behind(node, key.kind)

    def hold(self, node: str, key: ObjectKey) -> None:
        """Let an object wait until the next `release`."""
        self._held[node].add(key)

    def release(self, node: str) -> set[ObjectKey]:
        """Return the objects that have waited, to be tried again."""
        return self._held.pop(node, set())

    def release_one(self, node: str, key: ObjectKey) -> bool:
        """Return whether an object has waited; it no longer does."""
        held = self._held.get(node, set())
        has_waited = key in held
        held.discard(key)
        return has_waited

    def untold(self, node: str) -> list[tuple[ObjectKey, str]]:
        """Return the keys and uids of the objects that no watch has told of since the last look already: their
        deletions would never be sent.
        """
        syncs = self._object_syncs.of(node)
        uids = {uid for uid, sync in syncs.items() if self._newest.is_behind(sync) and not self._live(sync.key, uid)}
        late = uids & self._untold.pop(node, set())
        if uids:
            self._untold[node] = uids
        return [(syncs[uid].key, uid) for uid in sorted(late)]
