"""The ObjectSyncs of connected nodes (docs/protocol.md, "ObjectSync")."""

from collections.abc import Callable, Mapping

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.object_sync import ObjectSync

_LONGEST = 253

Write = Callable[[str, str, ObjectSync | None], None]
"""Stores the ObjectSync of a node and a uid; None deletes it."""


class ObjectSyncs:
    """The objects that the connected nodes have, or are to have, as KubeEdge's ObjectSyncs.

    An ObjectSync is stored before its object is first sent, and deleted when the node has acknowledged the object's
    deletion. So an undelivered deletion needs no record of its own: it is an ObjectSync without an object. The
    ObjectSyncs of other nodes are in the database only, where the cloudcore that a node connects to reads them.

    Args:
        write: called with every change.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._of: dict[str, dict[str, ObjectSync]] = {}

    def node_connected(self, node: str, known: dict[str, ObjectSync]) -> None:
        """Add a connected node with its stored ObjectSyncs, by uid."""
        self._of[node] = known

    def node_disconnected(self, node: str) -> None:
        """Remove a node that has disconnected, or connected to another cloudcore."""
        self._of.pop(node, None)

    def forget(self, node: str) -> None:
        """Forget the ObjectSyncs of a deleted Node."""
        if node in self._of:
            self._of[node] = {}

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
        sync = self.of(node).get(uid)
        return version > 0 and (sync is None or sync.version != version)

    def sending(self, node: str, uid: str, key: ObjectKey, version: int = 0) -> None:
        """Store an ObjectSync before its object is sent in a version, or its deletion."""
        sync = self.of(node).get(uid)
        if is_storable(uid, key) if sync is None else version and not (sync.version or sync.sent):
            self._put(node, uid, ObjectSync(key, sent=version))

    def acknowledged(self, node: str, uid: str, version: int) -> None:
        """Record that a node has acknowledged a version of an object; ignores objects without ObjectSync."""
        sync = self.of(node).get(uid)
        if sync is not None and version not in (0, sync.version):
            self._put(node, uid, ObjectSync(sync.key, version))

    def unacknowledge(self, node: str, uid: str) -> None:
        """Record that a node is sent the deletion of an object that exists: it needs any version of it from then on."""
        sync = self.of(node).get(uid)
        if sync is not None and sync.version:
            self._put(node, uid, ObjectSync(sync.key, sent=sync.version))

    def deleted(self, node: str, uid: str) -> None:
        """Delete the ObjectSync of an object that a node has deleted."""
        if self.of(node).pop(uid, None) is not None:
            self._write(node, uid, None)

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
            self._write(node, uid, sync)


def number_of(version: str) -> int:
    """Return a resourceVersion as the number that edges compare; 0 if it is no number, as Kubernetes allows. An
    object with such a version is not sent.
    """
    return whole_number(version) or 0


def is_storable(uid: str, key: ObjectKey) -> bool:
    """Return whether the names fit the database; the names of an unknown pod come from a node, and may be anything."""
    return all(len(text) <= _LONGEST and text.isprintable() for text in (uid, key.namespace, key.name)) and bool(uid)
