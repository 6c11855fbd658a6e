"""What the nodes that are connected here have, as far as the cloud knows (KubeEdge's ObjectSync and its sync
controller, spec/04 §6 and §7).

A sync is written down before its object is sent for the first time, and stays until the node has acknowledged the
object's deletion. So a deletion that nobody could deliver needs no record of its own: it is a sync without an object.
Those of other nodes are in the database alone; whichever cloudcore a node connects to reads them there.
"""

from collections.abc import Callable

import msgspec

from modules.edgecontroller.kinds import ObjectKey

_LONGEST = 253


class Sync(msgspec.Struct, frozen=True):
    """One object on one node."""

    key: ObjectKey
    version: int = 0
    """The newest that the node has acknowledged; 0: none yet."""


Write = Callable[[str, str, Sync | None], None]
"""Writes down the sync of a node and a uid; None: there is none any more."""


class Syncs:
    """See the module's docstring.

    Args:
        write: told of every change.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._of: dict[str, dict[str, Sync]] = {}

    def connected(self, node: str, known: dict[str, Sync]) -> None:
        """A node is there; these are its syncs."""
        self._of[node] = known

    def disconnected(self, node: str) -> None:
        """A node is gone, or is another cloudcore's now."""
        self._of.pop(node, None)

    def forget(self, node: str) -> None:
        """The node is not one of the cluster's any more: what it had is written down no longer."""
        if node in self._of:
            self._of[node] = {}

    def nodes(self) -> list[str]:
        """The nodes that are connected."""
        return list(self._of)

    def is_connected(self, node: str) -> bool:
        """Whether a node is."""
        return node in self._of

    def of(self, node: str) -> dict[str, Sync]:
        """By uid; nothing for a node that is not connected."""
        return self._of.get(node, {})

    def holders(self, uid: str) -> list[str]:
        """The connected nodes that may have an object."""
        return [node for node, syncs in self._of.items() if uid in syncs]

    def is_needed(self, node: str, uid: str, version: int) -> bool:
        """Whether a node must still be sent this version of an object."""
        sync = self.of(node).get(uid)
        return sync is None or sync.version < version

    def sending(self, node: str, uid: str, key: ObjectKey) -> None:
        """An object, or its deletion, is about to be sent."""
        if uid not in self.of(node) and _is_good(uid, key):
            self._put(node, uid, Sync(key))

    def acknowledged(self, node: str, uid: str, version: int) -> None:
        """A node has a version of an object. Of what was never sent from here, nothing is taken down."""
        sync = self.of(node).get(uid)
        if sync is not None and version > sync.version:
            self._put(node, uid, Sync(sync.key, version))

    def gone(self, node: str, uid: str) -> None:
        """A node has not got an object any more."""
        if self.of(node).pop(uid, None) is not None:
            self._write(node, uid, None)

    def started_anew(self, node: str) -> None:
        """A node's process has begun, perhaps with an empty store: what it acknowledged says nothing any more."""
        for uid, sync in list(self.of(node).items()):
            if sync.version:
                self._put(node, uid, Sync(sync.key))

    def _put(self, node: str, uid: str, sync: Sync) -> None:
        known = self._of.get(node)
        if known is not None:
            known[uid] = sync
            self._write(node, uid, sync)


def _is_good(uid: str, key: ObjectKey) -> bool:
    """Whether it can be written down: what a node says of a pod that nobody knows may be anything."""
    return all(len(text) <= _LONGEST and text.isprintable() for text in (uid, key.namespace, key.name)) and bool(uid)
