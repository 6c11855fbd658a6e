"""edgecontroller's client of an API server."""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from beehive.module import Module
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.kube_client import KubeClient
from modules.cloud.coordination.lease_keeper import LeaseListener
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.cluster.calls import ClusterCalls
from modules.cloud.edgecontroller.cluster.claims import NodeClaims
from modules.cloud.edgecontroller.cluster.devices import ClusterDevices
from modules.cloud.edgecontroller.cluster.lease_watch import watch_leases
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.cluster.resources import ClusterResources
from modules.cloud.edgecontroller.cluster.restores import Restores
from modules.cloud.edgecontroller.cluster.state import ClusterState
from modules.cloud.edgecontroller.cluster.watches import ClusterWatches
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.missing_bodies import MissingBodies
from modules.cloud.edgecontroller.mirror.reflectors import Reflectors
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.node_machine import ConfirmDeletion, Disappeared, ForCluster, RestoreMissed
from modules.cloud.edgecontroller.state.object_sync_import import Imported, ObjectSyncImport
from modules.cloud.edgecontroller.state.stored_states import StoredStates
from modules.cloud.storage.transactions import Transactions


class ClusterClient:
    """The parts that call and watch an API server, and how they begin: all objects are listed, and the nodes' state in
    the cluster, or KubeEdge's ObjectSyncs, is read if there is need.

    | part | what it does |
    |---|---|
    | `calls` | sends API calls |
    | `reflectors` | list and watch the mirrored kinds |
    | `bodies` | read objects of which the mirror keeps a part |
    | `claims` | claim nodes that connect |
    | `watches` | begin watches of other kinds for nodes |
    | `devices` | tell devicecontroller of devices |
    | `restores` | read objects that the mirror lacks |

    Args:
        cluster: the cluster.
        module: edgecontroller.
        transactions: of edgecontroller.
        loaded: called when all objects are there; again when they were listed again after a restore of etcd.
        mirror: of the cluster's objects; empty.
        downstream: sends nodes their objects; told of deletions and restarts of watches.
        connections: of nodes; they end with an epoch.
        states: take over KubeEdge's ObjectSyncs.
    """

    def __init__(
        self,
        cluster: RemoteCluster,
        module: Module,
        transactions: Transactions,
        loaded: Callable[[], None],
        *,
        mirror: Mirror,
        downstream: DownstreamController,
        connections: NodeConnections,
        states: StoredStates,
    ) -> None:
        self._cluster = cluster
        self._module = module
        self._transactions = transactions
        self._loaded = loaded
        self._mirror = mirror
        self._connections = connections
        self._states = states
        self._client: KubeClient | None = None
        self.calls = ClusterCalls(cluster, module)
        self.reflectors = Reflectors(
            mirror, module, transactions, downstream, connections.epochs, self._objects_are_listed
        )
        self.bodies = MissingBodies(
            mirror.bodies, downstream, self.calls, self.reflectors, module, is_embedded=cluster.is_embedded
        )
        self._state = (
            ClusterState(cluster, self.calls, module, transactions, connections, states, self.restore)
            if cluster.keeps_state
            else None
        )
        self.claims = NodeClaims(self._state, self.bodies)
        resources = ClusterResources(self.calls, module.clock)
        self.watches = ClusterWatches(self.calls, resources, self.reflectors, downstream, transactions)
        self.devices = ClusterDevices(mirror, self.reflectors, transactions, module)
        self.restores = Restores(self.calls, self.reflectors, downstream.newest, module.clock)
        self._is_loading = False
        self._is_loaded = False
        """Whether all objects were there once, and the state or KubeEdge's ObjectSyncs were read if there was need."""

    @property
    def knows_all(self) -> bool:
        """Whether all objects are there, and a missing one was deleted."""
        return self.is_ready and self._cluster.knows_all()

    @property
    def is_ready(self) -> bool:
        """Whether all objects are there."""
        return self._is_loaded and not self.reflectors.missing

    def start(self) -> None:
        """Begin to list and watch the mirrored kinds."""
        self._client = self.calls.start()
        self.reflectors.start(self._client)
        if self._state is not None:
            self._state.start()

    def watch_leases(self, settings: LeaseSettings, listener: LeaseListener) -> None:
        """Watch the Leases of cloudcores."""
        if self._client is not None:
            watch_leases(self._client, settings, listener)

    def restore(self, node: str) -> None:
        """Serve a node that was connected before the start, or whose state another cloudcore has written since."""
        self.carry_out(node, self._connections.restore_node(node))

    def carry_out(self, node: str, effects: Iterable[ForCluster]) -> None:
        """Do what follows from the beginning or the end of a node's connection."""
        for effect in effects:
            match effect:
                case ConfirmDeletion():
                    self._confirm_deletion(node, effect)
                case RestoreMissed():
                    self.reflectors.went_back()
                case Disappeared() if self._state is not None:
                    self._state.write_soon(node)

    def _confirm_deletion(self, node: str, asked: ConfirmDeletion) -> None:
        def answered(result: ApiResult) -> None:
            if (result.refusal or {}).get("code") == HTTPStatus.NOT_FOUND and self.knows_all:
                self.reflectors.observe(partial(self._connections.deletion_confirmed, node, asked))

        self.calls.send(ApiCall(verb="get", api_version="v1", plural="nodes", name=node), answered)

    def _objects_are_listed(self) -> None:
        """Once all objects are there: read the state in the cluster or KubeEdge's ObjectSyncs, if wanted, and go on."""
        if self._is_loaded:
            self._loaded()
        elif not self._is_loading:
            self._is_loading = True
            if self._state is None:
                self._import()
            else:
                self._state.load(self._import)

    def _import(self) -> None:
        self._transactions.begin()
        if self._states.any():
            self._have_state()
            return

        def done(found: Imported) -> None:
            self._transactions.begin()
            if not self._states.any():  # another cloudcore may have been faster
                self.reflectors.observe(lambda: self._states.import_syncs(found))
            self._have_state()
            self._module.end_turn_soon()

        ObjectSyncImport(self.calls, self._mirror, done).start()

    def _have_state(self) -> None:
        self._is_loaded = True
        if not self.reflectors.missing:
            self._loaded()
