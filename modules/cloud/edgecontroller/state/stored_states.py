"""The stored states of nodes, connected or not."""

import msgspec

from modules.apimachinery.kinds import ObjectKey, kind_named
from modules.apimachinery.lister import Lister
from modules.cloud.edgecontroller.state.epochs import Epochs
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.state.object_sync_import import Imported
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_sync import NodeState, ObjectSync

_NODE = kind_named("Node").key_name


class StoredStates:
    """The ObjectSyncs of nodes, their Node objects and epochs. All methods need a transaction.

    Args:
        database: stores them.
        storage: has the Nodes.
        object_syncs: the ObjectSyncs of connected nodes.
        epochs: the epochs of the API server's versions.
        newest: the versions that watches have reported.
    """

    def __init__(
        self,
        database: Database,
        storage: Lister,
        object_syncs: ObjectSyncs,
        epochs: Epochs,
        newest: NewestVersions,
    ) -> None:
        self._database = database
        self._storage = storage
        self._object_syncs = object_syncs
        self._epochs = epochs
        self._newest = newest
        self._suspects: set[str] | None = None
        """Nodes that had state and no Node object at the last collection; None before the objects are known."""

    @property
    def cloudcore(self) -> str:
        """The name of this cloudcore among others."""
        return self._database.cloudcore

    def any(self) -> bool:
        """Return whether anything is known of any node."""
        return bool(self._database.node_states())

    def is_known(self, node: str) -> bool:
        """Return whether a node is connected, has a Node object, or has state."""
        state, syncs = self.of(node)
        return bool(state.uid or syncs) or self._object_syncs.is_connected(node)

    def of(self, node: str) -> tuple[NodeState, dict[str, ObjectSync]]:
        """Return the state of a node, and its ObjectSyncs by uid."""
        found = self._database.node_state_of(node)
        uid = found.uid or uid_of_node(self._storage, node)
        return msgspec.structs.replace(found, uid=uid), self._database.object_syncs_of(node)

    def put(self, node: str, state: NodeState, syncs: dict[str, ObjectSync]) -> None:
        """Replace the state of a node."""
        self._database.forget_node(node)
        self._database.put_node_state(node, state)
        for uid, sync in syncs.items():
            self._database.put_object_sync(node, uid, sync)

    def adopt(self, node: str, state: NodeState, syncs: dict[str, ObjectSync]) -> None:
        """Replace the state of a node, unless it is connected."""
        if node not in self._database.connected:
            self.put(node, state, syncs)

    def import_syncs(self, found: Imported) -> None:
        """Take over the versions that nodes have acknowledged to KubeEdge's cloudcore."""
        for node, syncs in found.items():
            for uid, sync in syncs.items():
                self._database.put_object_sync(node, uid, sync)
            state = NodeState(uid_of_node(self._storage, node), self._epochs.number)
            self._database.put_node_state(node, state)

    def note_changes(self) -> None:
        """Note from now on the nodes whose state changes."""
        if self._database.changed is None:
            self._database.changed = set()

    def drain_changed(self) -> set[str]:
        """Return the nodes whose state has changed since the last call, if they are noted."""
        changed, self._database.changed = self._database.changed or set(), set()
        return changed

    def begin_collecting(self) -> None:
        """Look for nodes without a Node object for the first time: the objects are known."""
        if self._suspects is None:
            self._suspects = set()
            self.collect()

    def collect(self) -> None:
        """Delete the state of nodes whose Node object no longer exists, perhaps deleted while no cloudcore ran.

        It deletes a state only if the Node was missing the last time already, and is not one that the mirror has not
        been told of yet: the mirror may be behind another cloudcore's. Several cloudcores may do it for the same node.
        """
        if self._suspects is None:
            return
        suspects = set()
        for node, found in self._database.node_states().items():
            uid = uid_of_node(self._storage, node)
            if self._object_syncs.is_connected(node) or (uid and uid == found.uid):
                continue
            if uid and not found.uid:
                self._database.put_node_state(node, NodeState(uid, found.epoch))
            elif node in self._suspects and not self._is_behind(node, found):
                self._database.forget_node(node)
                self._database.release(node)
            else:
                suspects.add(node)
        self._suspects = suspects

    def _is_behind(self, node: str, state: NodeState) -> bool:
        is_present = state.epoch == self._epochs.number
        return is_present and is_newer_node(self._database, self._newest, node, state.uid)


def is_newer_node(database: Database, newest: NewestVersions, node: str, uid: str) -> bool:
    """Return whether the Node of a stored state of this epoch may only not have been told of yet."""
    sync = database.object_syncs_of(node).get(uid)
    return sync is not None and newest.is_behind(sync)


def uid_of_node(storage: Lister, node: str) -> str:
    """Return the uid of a Node object, "" if it does not exist."""
    live = storage.revision_of(ObjectKey(_NODE, "", node))
    return "" if live is None else live.uid
