"""The nodes that are connected to this cloudcore, and the takeover of a node by another cloudcore."""

from collections.abc import Callable, Iterable, Sequence

from modules.cloud.apiserver.database.database import Database
from modules.cloud.apiserver.object_store import ObjectStore
from modules.cloud.edgecontroller.downstream_controller import DownstreamController
from modules.cloud.edgecontroller.object_syncs import ObjectSyncs
from modules.cloud.messages import Acknowledged, ConnectEvent


class NodeConnections:
    """Claims connected nodes for this cloudcore, and starts and stops their downstream messages.

    A claim is a row in the database: the cloudcore with the newest claim owns the node, and the others end their
    connections to it.

    Args:
        database: holds claims and ObjectSyncs.
        storage: gives a version for each claim.
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
        self._ended: dict[str, str] = {}
        """By node, a connection whose end was handled before its beginning."""

    def restore(self) -> None:
        """Claims again the nodes whose claims were rolled back, and sends all connected nodes their unacknowledged
        objects; for the start of the module.
        """
        for node in sorted(self._database.unclaimed & self._database.connected.keys()):
            self._claim(node, self._database.connected[node])
        for node in self._database.connected:
            self._load(node)
            self._downstream.node_connected(node)

    def connected(self, event: ConnectEvent) -> None:
        """Claims the node and sends it its unacknowledged objects.

        Raises:
            DatabaseError: its ObjectSyncs could not be read.
        """
        node = event.client_id
        if self._ended.pop(node, None) == event.connection:
            self._remove(node)
            return
        self._claim(node, event.connection)
        self._load(node)
        self._downstream.node_connected(node)

    def disconnected(self, event: ConnectEvent) -> None:
        """Removes the node, unless it has another connection by now."""
        node = event.client_id
        if self._database.connected.get(node) == event.connection:
            self._remove(node)
        else:
            self._ended[node] = event.connection

    def registered(self, node: str) -> None:
        """Sends a node everything it needs again: its process has started, perhaps with an empty store."""
        self._downstream.unwatch(node)
        self._object_syncs.node_restarted(node)
        self._downstream.node_connected(node)

    def acknowledged(self, objects: Iterable[Acknowledged]) -> None:
        """Records the objects, or deletions, that nodes have stored."""
        for one in objects:
            if one.is_delete:
                self._object_syncs.deleted(one.node, one.uid)
            else:
                self._object_syncs.acknowledged(one.node, one.uid, one.version)

    def close(self, node: str) -> None:
        """Ends the connection of a node, which then connects again."""
        connection = self._database.connected.get(node)
        if connection is not None:
            self._remove(node)
            self._close(node, connection)

    def claimed_elsewhere(self, claims: Sequence[tuple[str, str]]) -> None:
        """Ends the connections to nodes that other cloudcores have claimed.

        Args:
            claims: pairs of node and cloudcore.
        """
        for node, cloudcore in claims:
            if cloudcore != self._database.cloudcore:
                self.close(node)

    def roll_back(self, nodes: Iterable[str]) -> None:
        """Loads the ObjectSyncs of nodes again, after changes to them were rolled back."""
        for node in nodes:
            if self._object_syncs.is_connected(node):
                self._load(node)

    def forget(self, node: str, *, elsewhere: bool) -> None:
        """Deletes the ObjectSyncs of a deleted Node.

        Args:
            node: its name.
            elsewhere: another cloudcore deleted it, and deletes its ObjectSyncs unless the node is connected here; a
                Node made again since may have new ones.
        """
        self._downstream.unwatch(node)
        if self._object_syncs.is_connected(node) or not elsewhere:
            self._object_syncs.forget(node)
            self._database.forget_node(node)

    def _claim(self, node: str, connection: str) -> None:
        self._database.claim(node, connection, self._storage.next_version())

    def _load(self, node: str) -> None:
        self._object_syncs.node_connected(node, self._database.object_syncs_of(node))

    def _remove(self, node: str) -> None:
        self._database.connected.pop(node, None)
        self._object_syncs.node_disconnected(node)
        self._downstream.node_disconnected(node)
