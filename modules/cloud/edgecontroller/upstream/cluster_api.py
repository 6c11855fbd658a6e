"""edgecontroller's client of an API server."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from modules.apimachinery.kinds import Kind, ObjectKey
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.client.call_requests import CallError, failure
from modules.cloud.client.calls import DOCUMENT, JSON_PATCH, Answered, ApiCall, ApiResult
from modules.cloud.client.kube_client import CallEnd, KubeClient
from modules.cloud.client.lane_calls import CallAnswered, CallSuperseded, RequestLane
from modules.cloud.coordination.lease_keeper import LeaseListener
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.cluster_state import WRITE_PERIOD, ClusterState
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.mirror.cluster_devices import ClusterDevices
from modules.cloud.edgecontroller.mirror.cluster_resources import ClusterResources
from modules.cloud.edgecontroller.mirror.cluster_watches import ClusterWatches
from modules.cloud.edgecontroller.mirror.lease_watch import watch_leases
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.missing_bodies import MissingBodies
from modules.cloud.edgecontroller.mirror.reflectors import Reflectors
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.node_machine import ConfirmDeletion, Disappeared, ForCluster, RestoreMissed
from modules.cloud.edgecontroller.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.state.object_sync_import import Imported, ObjectSyncImport
from modules.cloud.edgecontroller.state.stored_states import StoredStates
from modules.cloud.edgecontroller.turns import TurnModule
from modules.cloud.edgecontroller.upstream import as_the_node
from modules.cloud.edgecontroller.upstream.node_calls import NodeCalls
from modules.cloud.edgecontroller.upstream.node_writes import is_write
from modules.cloud.messages import ConnectEvent
from modules.cloud.object_writes import node_user
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_LANES: Final = {
    "leases": RequestLane.LEASE,
    "nodes": RequestLane.NODE,
    "pods": RequestLane.POD_STATUS,
    "events": RequestLane.EVENT,
}
_REPEATABLE: Final = ("get", "list", "patch", "delete", DOCUMENT)
"""Verbs of calls that may be made again when their outcome is unknown."""
_WRITE_DELAY: Final = 0.1
"""Seconds to collect the states of disconnected nodes."""


class ClusterApi:
    """Makes API calls by requests, and mirrors the objects that nodes hold, each kind with one watch.

    Args:
        cluster: the cluster.
        module: edgecontroller.
        access_control: checks the writes of nodes; the cluster sees them as cloudcore's.
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
        module: TurnModule,
        access_control: AccessControl,
        transactions: Transactions,
        loaded: Callable[[], None],
        *,
        mirror: Mirror,
        downstream: DownstreamController,
        connections: NodeConnections,
        states: StoredStates,
    ) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._module = module
        self._client: KubeClient | None = None
        self._transactions = transactions
        self._loaded = loaded
        self._downstream = downstream
        self._connections = connections
        self._states = states
        epochs = connections.epochs
        self._reflectors = Reflectors(mirror, module, transactions, downstream, epochs, self._all_listed)
        self._is_sending = False
        resources = ClusterResources(self, module.clock)
        watches = ClusterWatches(self, resources, self._reflectors, downstream, transactions)
        locations = downstream.locations
        self._calls = NodeCalls(cluster, mirror.bodies, self, watches, self._reflectors, access_control, locations)
        self._devices = ClusterDevices(mirror, self._reflectors, transactions, module)
        self._bodies = MissingBodies(mirror.bodies, downstream, self, self._reflectors, module)
        self._state = (
            ClusterState(self, states, connections, transactions, cluster.state_namespace, cluster.node_states)
            if cluster.keeps_state
            else None
        )
        self._is_loading = False
        self._writes_soon = False
        self._is_loaded = False
        """Whether all objects were there once, and the state or KubeEdge's ObjectSyncs were read if there was need."""
        self._claiming: dict[str, list[Callable[[], None]]] = {}
        """The waiting lists of each node that is being claimed."""

    @property
    def knows_all(self) -> bool:
        """Whether all objects are there, and a missing one was deleted."""
        return self.is_ready and self._cluster.knows_all()

    @property
    def is_ready(self) -> bool:
        """Whether all objects are there."""
        return self._is_loaded and self._reflectors.are_complete

    def start(self) -> None:
        """Begin to list and watch the mirrored kinds."""
        client = self._client = KubeClient(
            self._cluster.connect(self._module.runtime),
            self._module,
            self._module.clock.random,
            self._cluster.counters,
            self._cluster.limits,
        )
        self._reflectors.start(client)
        if self._state is not None:
            self._module.every(WRITE_PERIOD, self._write_state)

    def mirrors(self, kind: str) -> bool:
        """Begin to mirror a kind that nodes watch; return whether all objects of a kind are in the storage."""
        return self._reflectors.mirrors(kind)

    def mirror(self, kind: Kind) -> bool:
        """Begin to mirror a kind that nodes watch; return whether that is possible."""
        is_possible = self._reflectors.mirror(kind)
        self._reflectors.mirrors(kind.key_name)
        return is_possible

    def stop(self) -> None:
        """End all requests."""
        if self._client is not None:
            self._client.close()

    def perform(self, call: ApiCall, node: str, answered: Answered) -> None:
        """Make a call (`NodeCalls`).

        A node's list waits for the claim of the node: this cloudcore tells the node of deletions after the claim. The
        node's former cloudcore may have sent objects without having noted them.
        """
        if call.verb == "list" and node in self._claiming:
            self._claiming[node].append(partial(self.perform, call, node, answered))
            return
        self._calls.perform(call, node, answered)

    def claim(self, event: ConnectEvent, then: Callable[[], None], superseded: Callable[[], None]) -> None:
        """Claim a node in the cluster if its state is there, and read what the node needs and is not in the mirror.

        Args:
            event: the beginning of the node's connection.
            then: called when all that was done.
            superseded: called instead if the node has connected to another cloudcore since.
        """
        node = event.client_id

        def claimed() -> None:
            waiting = self._claiming.pop(node, ())
            then()
            for each in waiting:
                each()

        def lost() -> None:
            waiting = self._claiming.pop(node, ())
            superseded()
            for each in waiting:
                each()

        self._claiming.setdefault(node, [])
        if self._state is None:
            self._bodies.read_for(node, claimed)
        else:
            self._state.claim(node, event.timestamp, lambda: self._bodies.read_for(node, claimed), lost)

    def carry_out(self, node: str, effects: Iterable[ForCluster]) -> None:
        """Do what follows from the beginning or the end of a node's connection."""
        for effect in effects:
            match effect:
                case ConfirmDeletion():
                    self._confirm_deletion(node, effect)
                case RestoreMissed():
                    self._reflectors.went_back()
                case Disappeared():
                    self._write_soon()

    def is_missing(self, key: ObjectKey) -> bool:
        """Return whether only a part of an object is here; then its body is asked for, and the object sent."""
        return self._bodies.is_missing(key)

    def holders(self, node: str, then: Callable[[Mapping[str, str]], None]) -> bool:
        """Read from the cluster the cloudcore of a node's last connection, "" for all nodes; return whether that is
        stored there. `then` takes the cloudcores by node.
        """
        if self._state is None:
            return False
        self._state.holders(node, then)
        return True

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of devicecontroller's watch; others are refused."""
        return self._devices.start_watch(query)

    def watch_leases(self, settings: LeaseSettings, listener: LeaseListener) -> None:
        """Watch the Leases of cloudcores."""
        if self._client is not None:
            watch_leases(self._client, settings, listener)

    def changed(self, event: ObjectEvent) -> None:
        """Take note of a change of a Device or a DeviceModel; other kinds people watch in the cluster themselves."""
        self._devices.note(event)

    def tell_of_devices(self) -> None:
        """Pass the committed changes of Devices and DeviceModels on to devicecontroller."""
        self._devices.tell()

    def _confirm_deletion(self, node: str, asked: ConfirmDeletion) -> None:
        def answered(result: ApiResult) -> None:
            if (result.refusal or {}).get("code") == HTTPStatus.NOT_FOUND and self.knows_all:
                self._reflectors.observe(partial(self._connections.deletion_confirmed, node, asked))

        self.send(ApiCall(verb="get", api_version="v1", plural="nodes", name=node), answered)

    def send(self, call: ApiCall, answered: Answered, node: str = "") -> None:
        """Send a call by a request (`CallSender`)."""
        if self._client is None:
            answered(failure(HTTPStatus.SERVICE_UNAVAILABLE, "edgecontroller has not started"))
            return
        sender = node if node and as_the_node.is_sent(call) else ""
        author = node_user(node) if node and is_write(call) else ""
        if call.node != sender or call.author != author:
            call = msgspec.structs.replace(call, node=sender, author=author)
        key = f"{call.verb} {call.namespace}/{call.name}" if is_write(call) and call.name else ""
        lane = _LANES.get(call.plural, RequestLane.QUERY)
        self._is_sending = True
        try:
            self._client.call(lane, call, partial(self._ended, answered), key=key, idempotent=_is_repeatable(call))
        except CallError as error:
            self._is_sending = False
            answered(failure(HTTPStatus.BAD_REQUEST, str(error)))
        self._is_sending = False

    def _ended(self, answered: Answered, end: CallEnd) -> None:
        """Take the end of a call: later when another message is at work, whose new call has taken this one's place."""
        if self._is_sending:
            self._module.call_soon(lambda: self._answered(answered, end))
        else:
            self._answered(answered, end)

    def _answered(self, answered: Answered, end: CallEnd) -> None:
        answered(_result(end))
        self._module.end_turn_soon()

    def _write_soon(self) -> None:
        """Write the states when nodes have disconnected, all together: perhaps cloudcore stops."""
        if self._state is not None and not self._writes_soon:
            self._writes_soon = True
            self._module.after(_WRITE_DELAY, self._write_state)

    def _write_state(self) -> None:
        self._writes_soon = False
        if self._state is not None:
            self._state.write()
            self._module.end_turn_soon()

    def _all_listed(self) -> None:
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
                self._reflectors.observe(lambda: self._states.import_syncs(found))
            self._have_state()
            self._module.end_turn_soon()

        ObjectSyncImport(self, self._mirror, done).start()

    def _have_state(self) -> None:
        self._is_loaded = True
        if self._reflectors.are_complete:
            self._loaded()


def _is_repeatable(call: ApiCall) -> bool:
    """Return whether a call may be made again when its outcome is unknown. A JSON patch may add something twice, and a
    deletion without a precondition may delete the next object of the name.
    """
    if call.verb == "delete" and not call.options.get("preconditions"):
        return False
    return call.verb in _REPEATABLE and call.patch_type != JSON_PATCH


def _result(end: CallEnd) -> ApiResult:
    if isinstance(end, CallAnswered):
        return end.result
    if isinstance(end, CallSuperseded):
        return failure(HTTPStatus.SERVICE_UNAVAILABLE, "a newer request for the object has taken its place")
    why = getattr(end, "why", "too many requests wait for the API server")
    return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"no answer of the API server: {why}")
