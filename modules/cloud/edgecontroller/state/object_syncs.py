"""The ObjectSyncs of connected nodes (docs/protocol.md, "ObjectSync")."""

from collections.abc import Callable, Mapping

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.object_sync import ObjectSync

_LONGEST = 253
_MOST = 1 << 62
"""The bound of the versions of deletions that are kept."""

Write = Callable[[str, str, ObjectSync | None], None]
"""Stores the ObjectSync of a node and a uid; None deletes it."""


class ObjectSyncs:
    """The objects that the connected nodes have, or are to have, as KubeEdge's ObjectSyncs.

    An ObjectSync is stored before its object is first sent, and deleted when the node has acknowledged the object's
    deletion. So an undelivered deletion needs no record of its own: it is an ObjectSync without an object. The
    ObjectSyncs of other nodes are in the database only, where the cloudcore that a node connects to reads them. Of each
    kind the newest acknowledged deletion stays, for a cloudcore whose watch is behind it.

    Args:
        write: called with every change.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._of: dict[str, dict[str, ObjectSync]] = {}
        self._deletions: dict[str, dict[str, tuple[int, str]]] = {}
        """By node and kind, the version of the newest acknowledged deletion, and the uid of its object."""

    def node_connected(self, node: str, known: dict[str, ObjectSync]) -> None:
        """Add a connected node with its stored ObjectSyncs, by uid."""
        self._of[node] = {uid: sync for uid, sync in known.items() if not sync.deleted}
        found = sorted((sync.deleted, uid, sync.key.kind) for uid, sync in known.items() if sync.deleted)
        self._deletions[node] = {kind: (version, uid) for version, uid, kind in found}

    def node_disconnected(self, node: str) -> None:
        """Remove a node that has disconnected, or connected to another cloudcore."""
        self._of.pop(node, None)
        self._deletions.pop(node, None)

    def forget(self, node: str) -> None:
        """Forget the ObjectSyncs of a deleted Node."""
        if node in self._of:
            self._of[node] = {}
            self._deletions[node] = {}

    def nodes(self) -> list[str]:
        """Return the connected nodes."""
        return list(self._of)

    def is_connected(self, node: str) -> bool:
        """Return whether a node is connected."""
        return node in self._of

    def of(self, node: str) -> dict[str, ObjectSync]:
        """Return a node's ObjectSyncs by uid; none for a node that is not connected."""
        return self._of.get(node, {})

    def holders(self, uid: str) -> list[str]:
        """Return the connected nodes that may have an object."""
        return [node for node, syncs in self._of.items() if uid in syncs]

    def is_needed(self, node: str, uid: str, version: int) -> bool:
        """Return whether a node must be sent this version of an object (`number_of`).

        A version may be lower than the acknowledged one when etcd was restored.
        """
        sync = self._of.get(node, {}).get(uid)
        return version > 0 and (sync is None or sync.version != version)

    def sending(self, node: str, uid: str, key: ObjectKey, version: int = 0) -> None:
        """Store an ObjectSync before its object is sent in a version, or its deletion. A damaged row may have another
        key than the object: no object of it would be found, and the deletion sent.
        """
        sync = self._of.get(node, {}).get(uid)
        if sync is None:
            is_changed = is_storable(uid, key)
        else:
            is_changed = version > 0 and (key != sync.key or not (sync.version or sync.sent))
        if is_changed:
            self._put(node, uid, ObjectSync(key, sent=version))

    def acknowledged(self, node: str, uid: str, version: int) -> None:
        """Record that a node has acknowledged a version of an object; ignores objects without ObjectSync."""
        sync = self._of.get(node, {}).get(uid)
        if sync is not None and version not in (0, sync.version):
            self._put(node, uid, ObjectSync(sync.key, version))

    def deleting(self, node: str, uid: str, version: int) -> None:
        """Record that a node is sent the deletion of an object: it needs any version of the object from then on, and
        from a cloudcore that does not know of the deletion yet no older one.

        Args:
            node: the node.
            uid: of the object.
            version: of its deletion; 0 if it is not known.
        """
        sync = self.of(node).get(uid)
        if sync is not None and sync.existed_at:
            version = version if version < _MOST else 0
            self._put(node, uid, ObjectSync(sync.key, sent=max(sync.existed_at, version)))

    def deleted(self, node: str, uid: str, version: int = 0) -> None:
        """Delete the ObjectSync of an object that a node has deleted.

        Args:
            node: the node.
            uid: of the object.
            version: of its deletion; 0 if it is not known.
        """
        sync = self.of(node).pop(uid, None)
        if sync is None:
            return
        deletions, kind = self._deletions[node], sync.key.kind
        before, older = deletions.get(kind, (0, ""))
        if before < version < _MOST:
            deletions[kind] = version, uid
            self._write(node, uid, ObjectSync(sync.key, deleted=version))
            if older:
                self._write(node, older, None)
        else:
            self._write(node, uid, None)

    def deletion_of(self, node: str, kind: str) -> int:
        """Return the version of the newest deletion of a kind that a node has acknowledged, 0 if none is known."""
        return self._deletions.get(node, {}).get(kind, (0, ""))[0]

    def node_restarted(self, node: str, sent: Mapping[str, int]) -> None:
        """Reset the acknowledged versions of a node whose process has started, perhaps with an empty store; but not the
        versions in `sent`, which this process was sent, by uid.
        """
        for uid, sync in list(self.of(node).items()):
            if sync.version and sent.get(uid) != sync.version:
                self._put(node, uid, ObjectSync(sync.key, sent=sync.version))

    def _put(self, node: str, uid: str, sync: ObjectSync) -> None:
        known = self._of.get(node)
        if known is not None:
            known[uid] = sync
            if self._deletions[node].get(sync.key.kind, (0, ""))[1] == uid:
                del self._deletions[node][sync.key.kind]  # it has come back, and takes the place of its deletion
            self._write(node, uid, sync)


def number_of(version: str) -> int:
    """Return a resourceVersion as the number that edges compare; 0 if it is no number, as Kubernetes allows. An
    object with such a version is not sent.
    """
    return whole_number(version) or 0


def is_storable(uid: str, key: ObjectKey) -> bool:
    """Return whether the names fit the database; the names of an unknown pod come from a node, and may be anything."""
    texts = (uid, key.namespace, key.name)
    return bool(uid) and max(map(len, texts)) <= _LONGEST and "".join(texts).isprintable()
