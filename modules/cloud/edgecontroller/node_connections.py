"""The nodes that are connected to this cloudcore, and the takeover of a node by another cloudcore."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from modules.apimachinery.kinds import ObjectKey, kind_named, uid_of
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.state.epochs import Epochs
from modules.cloud.edgecontroller.state.object_sync_import import Imported
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.messages import Acknowledged, ConnectEvent
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_store import ObjectStore
from modules.cloud.storage.object_sync import Holder, NodeState, ObjectSync

_NODE, _POD = kind_named("Node").key_name, kind_named("Pod").key_name


class NodeConnections:
    """Claims connected nodes for this cloudcore, and starts and stops their downstream messages.

    A claim is a row in the database: the cloudcore with the newest claim owns the node, and the others end their
    connections to it. ObjectSyncs belong to a Node's uid, and acknowledged versions to an epoch: nothing of a Node that
    was deleted counts for one of the same name, and no version of another epoch counts as acknowledged.

    Args:
        database: holds claims and ObjectSyncs.
        storage: has the Nodes, and gives a version for each claim.
        object_syncs: the ObjectSyncs of connected nodes.
        downstream: sends the nodes their objects.
        close: closes the connection of a node, by node and connection id, after the transaction.
    """

    def __init__(
        self,
        database: Database,
        storage: ObjectStore,
        object_syncs: ObjectSyncs,
        downstream: DownstreamController,
        close: Callable[[str, str], None],
    ) -> None:
        self._database = database
        self._storage = storage
        self._object_syncs = object_syncs
        self._downstream = downstream
        self._close = close
        self.released: Callable[[], None] = lambda: None
        """Called when a node has disconnected."""
        self.owns: Callable[[str], bool] = lambda _duty: True
        """Whether a duty is this cloudcore's, of those that share the database."""
        self.seems_gone: Callable[[str, Callable[[], None]], None] = lambda _node, _confirmed: None
        """Called with a node that has connected and whose Node seems to have been deleted while it was away, and with
        what follows if that is so: the mirror may only be behind.
        """
        self.missed_restore: Callable[[], None] = lambda: None
        """Called when another cloudcore has seen a restore of etcd that this one has not: the mirror is older."""
        self._registered_before: set[str] = set()
        """Nodes that have registered while they were being claimed."""
        self._registered: dict[str, str] = {}
        """By node, the connection over which it has registered last."""
        self.epochs = Epochs(database, self.close_all)
        """The epochs of the API server's versions."""
        self._suspects: set[str] | None = None
        """Nodes that had state and no Node object at the last collection; None before the objects are known."""
        self._ended: dict[str, str] = {}
        """By node, a connection whose end was handled before its beginning."""
        self._connected_at: dict[str, int] = {}
        """When the connected nodes connected, in seconds since 1970."""
        self._elsewhere: dict[str, Holder] = {}
        """The cloudcores of the database that have claimed nodes since, by node."""

    def restore(self) -> list[str]:
        """Claims again the nodes whose claims were rolled back, and returns the connected nodes. Each node must be
        restored before a message about it is handled. For the start of the module.
        """
        for node in sorted(self._database.unclaimed & self._database.connected.keys()):
            self._claim(node, self._database.connected[node])
        if self._suspects is None:
            self._suspects = set()
            self.collect()
        return list(self._database.connected)

    def restore_node(self, node: str) -> None:
        """Sends a node that was connected before the start its unacknowledged objects."""
        if node in self._database.connected:
            self._load(node)
            self._downstream.node_connected(node)

    def have_state(self) -> bool:
        """Returns whether anything is known of any node. For a transaction."""
        return bool(self._database.node_states())

    def take_over(self, found: Imported) -> None:
        """Takes over the versions that nodes have acknowledged to KubeEdge's cloudcore."""
        for node, syncs in found.items():
            for uid, sync in syncs.items():
                self._database.put_object_sync(node, uid, sync)
            self._database.put_node_state(node, NodeState(self._uid_of(node), self.epochs.number))

    @property
    def cloudcore(self) -> str:
        """The name of this cloudcore among others."""
        return self._database.cloudcore

    def state_of(self, node: str) -> tuple[NodeState, dict[str, ObjectSync]]:
        """Returns the stored state of a node, connected or not. For a transaction."""
        found = self._database.node_state_of(node)
        return msgspec.structs.replace(found, uid=found.uid or self._uid_of(node)), self._database.object_syncs_of(node)

    def take_over_state(self, node: str, state: NodeState, syncs: dict[str, ObjectSync]) -> None:
        """Replaces the stored state of a node that is not connected. For a transaction."""
        if node not in self._database.connected:
            self._put_state(node, state, syncs)

    def claim_again(self, node: str, state: NodeState, syncs: dict[str, ObjectSync]) -> None:
        """Takes over the state that another cloudcore has written for a node that is connected here, and sends what the
        node has not acknowledged to that one, deletions among it. For a transaction.
        """
        self._put_state(node, state, syncs)
        self.restore_node(node)

    def _put_state(self, node: str, state: NodeState, syncs: dict[str, ObjectSync]) -> None:
        self._database.forget_node(node)
        self._database.put_node_state(node, state)
        for uid, sync in syncs.items():
            self._database.put_object_sync(node, uid, sync)

    def take_changed(self) -> set[str]:
        """Returns the nodes whose stored state has changed since the last call."""
        changed, self._database.changed = self._database.changed, set()
        return changed

    def connected(self, event: ConnectEvent) -> None:
        """Claims the node and sends it its unacknowledged objects. If another cloudcore of the database has begun the
        next epoch, its connection is ended, and it connects again while all is listed again.

        Raises:
            DatabaseError: its ObjectSyncs could not be read.
        """
        node = event.client_id
        if self._ended.pop(node, None) == event.connection:
            self._remove(node)
            return
        own = Holder(self.cloudcore, event.timestamp)
        if self._elsewhere.pop(node, Holder()).is_newer_than(own):
            self.refuse(event)
            return
        self._connected_at[node] = event.timestamp
        self._claim(node, event.connection)
        if self.epochs.is_over:
            self.missed_restore()
            self.close(node)
            return
        former = self._load(node)
        if former:
            self.seems_gone(node, lambda: self._tell_of_deletion(event, former))
        self._downstream.connection_began(node)
        if node in self._registered_before:
            self._registered_before.discard(node)
            self._downstream.node_restarted(node)
            self._object_syncs.sending(node, self._uid_of(node), ObjectKey(_NODE, "", node))
        self._downstream.node_connected(node)

    def disconnected(self, event: ConnectEvent) -> None:
        """Removes the node, unless it has another connection by now."""
        node = event.client_id
        if self._database.connected.get(node) == event.connection:
            self._remove(node)
            self.released()
        else:
            self._ended[node] = event.connection

    def connection_of(self, node: str) -> str:
        """Returns the connection of a node; "" if it has none."""
        return self._database.connected.get(node, "")

    def registered(self, node: str, connection: str) -> None:
        """Sends a node everything it needs again that it was not sent over this connection: its process has started,
        perhaps with an empty store. A process that has no answer in time registers again over the same connection.

        Args:
            node: the node.
            connection: its connection when the message came; "" if it had none.
        """
        present = self.connection_of(node)
        is_repeated = connection != "" and self._registered.get(node) == connection == present
        self._registered[node] = connection
        if not is_repeated:
            self._downstream.unwatch(node)
        if not self._object_syncs.is_connected(node):
            self._registered_before.add(node)
        elif connection != present:  # the watch may have reported the Node before the present connection was claimed
            self._object_syncs.sending(node, self._uid_of(node), ObjectKey(_NODE, "", node))
        self._downstream.node_restarted(node)
        self._downstream.node_connected(node)

    def acknowledged(self, objects: Iterable[Acknowledged]) -> None:
        """Records the objects, or deletions, that nodes have stored."""
        for one in objects:
            sync = self._object_syncs.of(one.node).get(one.uid)
            if one.is_delete:
                self._object_syncs.deleted(one.node, one.uid)
            elif sync is None:
                self._downstream.edge_mesh.note_acknowledged(one.node, one.uid)
            else:
                self._object_syncs.acknowledged(one.node, one.uid, one.version)
                if sync.key.kind == _POD:
                    self.epochs.note(one.version)

    def refuse(self, event: ConnectEvent) -> None:
        """Ends a connection that was not claimed: the node has connected to another cloudcore since."""
        if self._ended.pop(event.client_id, None) != event.connection:
            self._close(event.client_id, event.connection)

    def close(self, node: str) -> None:
        """Ends the connection of a node, which then connects again."""
        connection = self._database.connected.get(node)
        if connection is not None:
            self._remove(node)
            self._close(node, connection)

    def close_all(self) -> None:
        """Ends all connections, with the versions that nodes were sent over them: another epoch has begun."""
        for node in list(self._database.connected):
            self.close(node)

    def claimed_elsewhere(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """Ends the connections to nodes that other cloudcores have claimed.

        Args:
            claims: pairs of node and cloudcore.
        """
        for node, holder in claims:
            if holder.cloudcore != self._database.cloudcore:
                self._elsewhere[node] = holder
                self.close(node)

    def roll_back(self, nodes: Iterable[str]) -> None:
        """Loads the ObjectSyncs of nodes again, after changes to them were rolled back: nothing was sent then."""
        for node in nodes:
            self._downstream.connection_began(node)
            if self._object_syncs.is_connected(node):
                self._load(node)

    def node_changed(self, event: ObjectEvent) -> None:
        """Deletes the ObjectSyncs of a deleted Node, and notes the uid of a new one."""
        node, uid = event.key.name, uid_of(event.new)
        if event.type is EventType.DELETED:
            self._downstream.unwatch(node)
            self._downstream.connection_began(node)
        is_connected = self._object_syncs.is_connected(node)
        if not is_connected and event.type is not EventType.DELETED:
            return
        found = self._database.node_state_of(node)
        if event.type is EventType.ADDED and not found.uid:
            self._database.put_node_state(node, NodeState(uid, self.epochs.number))
        elif event.type is EventType.DELETED and found.uid in ("", uid):
            self._object_syncs.forget(node)
            self._database.forget_node(node)
        if event.type is EventType.ADDED and is_connected:
            self._downstream.node_connected(node)  # it may have registered before its earlier Node was seen to be gone

    def collect(self) -> None:
        """Deletes the state of nodes whose Node object is gone, such as one that was deleted while no cloudcore ran.

        It deletes a state only if the Node was missing the last time already, because this cloudcore's mirror may be
        behind that of another one. Of several cloudcores, one does it for a node.
        """
        if self._suspects is None:
            return
        suspects = set()
        for node, found in self._database.node_states().items():
            uid = self._uid_of(node)
            if self._object_syncs.is_connected(node) or (uid and uid == found.uid):
                continue
            if uid and not found.uid:
                self._database.put_node_state(node, NodeState(uid, found.epoch))
            elif node in self._suspects and self.owns(f"node/{node}"):
                self._database.forget_node(node)
                self._database.release(node)
            else:
                suspects.add(node)
        self._suspects = suspects

    def _claim(self, node: str, connection: str) -> None:
        self._database.claim(node, connection, self._storage.next_version(), self._connected_at.get(node, 0))

    def _tell_of_deletion(self, event: ConnectEvent, uid: str) -> None:
        """Tells a node that its Node was deleted, if it has the same connection and no other Node. If it has registered
        over this connection, the mirror may not have its new Node yet.
        """
        node = event.client_id
        has_registered = self._registered.get(node) == event.connection
        if self.connection_of(node) == event.connection and not has_registered and not self._uid_of(node):
            self._downstream.delete_unknown(node, ObjectKey(_NODE, "", node), uid)

    def _load(self, node: str) -> str:
        """Loads the ObjectSyncs of a node; none of another Node, and no versions of another epoch. Returns the uid of
        its earlier Node if that is not here, nor another one; "" otherwise.
        """
        found, present = self._database.node_state_of(node), NodeState(self._uid_of(node), self.epochs.number)
        if found.uid not in ("", present.uid):
            self._database.forget_node(node)
        known = self._database.object_syncs_of(node)
        if found.epoch != present.epoch:
            known = {uid: ObjectSync(sync.key) for uid, sync in known.items()}
            for uid, sync in known.items():
                self._database.put_object_sync(node, uid, sync)
        if found != present:
            self._database.put_node_state(node, present)
        self._object_syncs.node_connected(node, known)
        return "" if present.uid else found.uid

    def _uid_of(self, node: str) -> str:
        """Returns the uid of a Node, "" if there is none."""
        obj = self._storage.find(ObjectKey(_NODE, "", node))
        return uid_of(obj) if obj is not None else ""

    def _remove(self, node: str) -> None:
        self._registered_before.discard(node)
        self._registered.pop(node, None)
        self._database.connected.pop(node, None)
        self._connected_at.pop(node, None)
        self._object_syncs.node_disconnected(node)
        self._downstream.node_disconnected(node)
