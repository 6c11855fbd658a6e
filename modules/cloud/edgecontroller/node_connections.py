"""The nodes that are connected to this cloudcore, and the takeover of a node by another cloudcore."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from modules.apimachinery.kinds import ObjectKey, kind_named, uid_of
from modules.cloud.edgecontroller import node_machine
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.node_machine import ForCluster, NodeEffect, NodeEvent, NodeRecord
from modules.cloud.edgecontroller.state.epochs import Epochs
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.edgecontroller.state.stored_states import is_newer_node, uid_of_node
from modules.cloud.messages import Acknowledged, ConnectEvent
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_store import ObjectStore
from modules.cloud.storage.object_sync import Holder, NodeState, ObjectSync

_NODE, _POD = kind_named("Node").key_name, kind_named("Pod").key_name


class _Seen:
    """The facts of a node that the machine reads; each is read once, when it is needed (`node_machine.Seen`)."""

    def __init__(
        self,
        node: str,
        now: float,
        database: Database,
        storage: ObjectStore,
        epochs: Epochs,
        newest: NewestVersions,
    ) -> None:
        self._node = node
        self.now = now
        self._database = database
        self._storage = storage
        self._epochs = epochs
        self._newest = newest

    @property
    def uid(self) -> str:
        """The uid of the Node object."""
        return uid_of_node(self._storage, self._node)

    @cached_property
    def stored(self) -> NodeState:
        """The stored state."""
        return self._database.node_state_of(self._node)

    @property
    def is_behind(self) -> bool:
        """Whether the Node of the stored state may be one that the mirror has not been told of yet."""
        state = self.stored
        is_present = state.epoch == self._epochs.number
        return is_present and is_newer_node(self._database, self._newest, self._node, state.uid)

    @property
    def epoch(self) -> int:
        """The number of the present epoch."""
        return self._epochs.number

    @property
    def is_epoch_over(self) -> bool:
        """Whether another cloudcore has begun the next epoch."""
        return self._epochs.is_over


class NodeConnections:
    """The runner of each node's machine (`node_machine`): it claims connected nodes for this cloudcore, and starts and
    stops their downstream messages. All methods need a transaction.

    A claim is a row in the database: the cloudcore with the newest claim owns the node, and the others end their
    connections to it.

    Args:
        database: holds claims and ObjectSyncs.
        storage: has the Nodes, and gives a version for each claim.
        object_syncs: the ObjectSyncs of connected nodes.
        downstream: sends the nodes their objects.
        close: closes the connection of a node, by node and connection id, after the transaction.
        now: returns the seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        storage: ObjectStore,
        object_syncs: ObjectSyncs,
        downstream: DownstreamController,
        close: Callable[[str, str], None],
        now: Callable[[], float],
    ) -> None:
        self._database = database
        self._storage = storage
        self._object_syncs = object_syncs
        self._downstream = downstream
        self._close = close
        self._now = now
        self.epochs = Epochs(database, self.close_all)
        """The epochs of the API server's versions."""
        self._records: dict[str, NodeRecord] = {}
        """Without empty ones."""
        self._last: dict[str, str] = {}
        """By node, the connection that has begun last, until it ends."""

    def restore(self) -> list[str]:
        """Claim again the nodes whose claims were rolled back, and return the connected nodes; those that another
        cloudcore has claimed since are no longer connected. Each node must be restored before a message about it is
        handled. For the start of the module.
        """
        for node in sorted(self._database.unclaimed):
            self._claim(node, *self._database.connected[node])
        return list(self._database.connected)

    def restore_node(self, node: str) -> list[ForCluster]:
        """Send a node that was connected before the start its unacknowledged objects; return the effects that need the
        API server.
        """
        return self._handle(node, node_machine.Restored())

    def connecting(self, event: ConnectEvent) -> None:
        """Note the connection of a node that is to be claimed."""
        self._last[event.client_id] = event.connection

    def connected(self, event: ConnectEvent) -> list[ForCluster]:
        """Claim the node and send it its unacknowledged objects; return the effects that need the API server.

        Raises:
            DatabaseError: its ObjectSyncs could not be read.
        """
        holder = Holder(self._database.cloudcore, event.began_at)
        return self._handle(event.client_id, node_machine.Connected(event.connection, holder))

    def disconnected(self, event: ConnectEvent) -> list[ForCluster]:
        """Remove the node, unless it has another connection by now; return the effects that need the API server."""
        if self.last_connection_of(event.client_id) == event.connection:
            del self._last[event.client_id]
        return self._handle(event.client_id, node_machine.Disconnected(event.connection))

    def refuse(self, event: ConnectEvent) -> None:
        """End a connection that was not claimed: the node has connected to another cloudcore since."""
        self._handle(event.client_id, node_machine.Superseded(event.connection))

    def connection_of(self, node: str) -> str:
        """Return the connection of a node, or ""."""
        connection = self._database.connected.get(node)
        return "" if connection is None else connection.id

    def last_connection_of(self, node: str) -> str:
        """Return the connection of a node that has begun last here, claimed or not yet; "" if that has ended, or was
        there before the start.
        """
        return self._last.get(node, "")

    def registered(self, node: str, connection: str) -> None:
        """Send a node everything it needs again that it was not sent over this connection: its process has started.

        Args:
            node: the node.
            connection: its connection when the message came; "" if it had none.
        """
        self._handle(node, node_machine.Registered(connection))

    def deletion_confirmed(self, node: str, asked: node_machine.ConfirmDeletion) -> None:
        """Tell a node that its Node was deleted, if it has the same connection and no other Node."""
        self._handle(node, node_machine.DeletionConfirmed(asked.connection, asked.uid))

    def acknowledged(self, objects: Iterable[Acknowledged]) -> None:
        """Record the objects, or deletions, that nodes have stored."""
        newest = 0
        for one in objects:
            sync = self._object_syncs.of(one.node).get(one.uid)
            if one.is_delete:
                self._downstream.deletion_acknowledged(one.node, one.uid)
            elif sync is None:
                self._downstream.edge_mesh.record_acknowledged(one.node, one.uid)
            elif one.version >= sync.sent or not self._downstream.is_deleting(one.node, one.uid):
                self._object_syncs.acknowledged(one.node, one.uid, one.version)
                if sync.key.kind == _POD:
                    newest = max(newest, one.version)
        self.epochs.record(newest)

    def close(self, node: str) -> None:
        """End the connection of a node, which then connects again."""
        self._handle(node, node_machine.Dropped())

    def close_all(self) -> None:
        """End all connections, with the versions that nodes were sent over them: another epoch has begun."""
        for node in list(self._database.connected):
            self.close(node)

    def claimed_elsewhere(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """End the connections to nodes that other cloudcores have claimed.

        Args:
            claims: pairs of node and cloudcore.
        """
        for node, holder in claims:
            if holder.cloudcore != self._database.cloudcore:
                self._handle(node, node_machine.ClaimedElsewhere(holder))

    def roll_back(self, nodes: Iterable[str]) -> None:
        """Load the ObjectSyncs of nodes again, after changes to them were rolled back: nothing was sent then."""
        for node in nodes:
            self._handle(node, node_machine.RolledBack())

    def node_changed(self, event: ObjectEvent) -> None:
        """Delete the ObjectSyncs of a deleted Node, and note the uid of a new one."""
        uid = uid_of(event.new)
        is_deleted = event.type is EventType.DELETED
        self._handle(event.key.name, node_machine.NodeDeleted(uid) if is_deleted else node_machine.NodeAdded(uid))

    def _record_of(self, node: str) -> NodeRecord:
        """Return the record of a node, even if it was connected before the start."""
        return self._records.get(node) or NodeRecord(connection=self.connection_of(node))

    def _handle(self, node: str, event: NodeEvent) -> list[ForCluster]:
        """Take an event, carry its effects out, and return those about the API server."""
        newest = self._downstream.newest
        seen = _Seen(node, self._now(), self._database, self._storage, self.epochs, newest)
        record, effects = node_machine.step(self._record_of(node), event, seen)
        if record == NodeRecord():
            self._records.pop(node, None)
        else:
            self._records[node] = record
        rest: list[ForCluster] = []
        for effect in effects:
            if isinstance(effect, ForCluster):
                rest.append(effect)
            else:
                self._carry_out(node, effect)
        return rest

    def _carry_out(self, node: str, effect: NodeEffect) -> None:
        match effect:
            case node_machine.Release():
                self._database.disconnected(node)
                self._object_syncs.node_disconnected(node)
                self._downstream.node_disconnected(node)
            case node_machine.Close(connection):
                self._close(node, connection)
            case node_machine.BeginConnection():
                self._downstream.connection_began(node)
            case node_machine.Restart():
                self._downstream.node_restarted(node)
            case node_machine.EnsureNode(uid):
                self._object_syncs.sending(node, uid, ObjectKey(_NODE, "", node))
            case node_machine.SendUnacknowledged():
                self._downstream.node_connected(node)
            case node_machine.EndWatches():
                self._downstream.unwatch(node)
            case node_machine.DeleteNode(uid):
                self._downstream.delete_unknown(node, ObjectKey(_NODE, "", node), uid)
            case _:
                self._store(node, effect)

    def _store(self, node: str, effect: NodeEffect) -> None:
        match effect:
            case node_machine.Claim(connection, connected_at):
                self._claim(node, connection, connected_at)
            case node_machine.Load():
                self._load(node, effect)
            case node_machine.Store(state):
                self._database.put_node_state(node, state)
            case node_machine.Forget():
                self._object_syncs.forget(node)
                self._database.forget_node(node)

    def _claim(self, node: str, connection: str, connected_at: float) -> None:
        self._database.claim(node, connection, self._storage.next_version(), connected_at)

    def _load(self, node: str, load: node_machine.Load) -> None:
        if load.forgets:
            self._database.forget_node(node)
        known = self._database.object_syncs_of(node)
        if load.resets:
            for uid, sync in known.items():
                self._database.put_object_sync(node, uid, None if sync.deleted else ObjectSync(sync.key))
            known = {uid: ObjectSync(sync.key) for uid, sync in known.items() if not sync.deleted}
        if load.state is not None:
            self._database.put_node_state(node, load.state)
        self._object_syncs.node_connected(node, known)
        self._downstream.stale.records_loaded(node)
