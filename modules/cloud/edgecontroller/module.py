"""The module edgecontroller."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import ClassVar

from beehive.delivery import OverflowPolicy
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType
from beehive.resource import Side
from beehive.slot import State
from modules.apimachinery.api_errors import ApiError, Failures, RefusedError
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, kind_named
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_authorizer import may_read
from modules.cloud.client.call_requests import failure
from modules.cloud.client.calls import Answered, ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.devices import KEY_NAMES as DEVICES
from modules.cloud.edgecontroller.cloudhub_sender import CloudHubSender
from modules.cloud.edgecontroller.cluster.client import ClusterClient
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.csi_nodes import CsiNodes
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.downstream.resending import Resending
from modules.cloud.edgecontroller.duties import Duties
from modules.cloud.edgecontroller.handled_messages import HandledMessages
from modules.cloud.edgecontroller.kubelet_ports import KubeletPorts
from modules.cloud.edgecontroller.mirror.kept_bodies import LOOK_PERIOD, KeptBodies
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.missed_connections import MissedConnections
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.edgecontroller.state.stored_states import StoredStates
from modules.cloud.edgecontroller.upstream import nodes as upstream_nodes
from modules.cloud.edgecontroller.upstream.api_callers import ApiCallers
from modules.cloud.edgecontroller.upstream.controller import UpstreamController
from modules.cloud.edgecontroller.upstream.handlers import HANDLERS, handles_requests
from modules.cloud.edgecontroller.upstream.node_calls import NodeCalls
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest
from modules.cloud.identities.messages import NAME as IDENTITIES
from modules.cloud.messages import (
    ACKNOWLEDGED,
    CLOUDCORES,
    RELEASE_LEASE,
    Acknowledged,
    Cloudcores,
    ConnectEvent,
    origin_of,
)
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.listener import poll_for_changes
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_sync import Holder
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_RESEND_PERIOD = 10.0
"""Seconds between two checks for unacknowledged objects (KubeEdge's sync controller: 5)."""
_COLLECTION_PERIOD = 600.0
"""Seconds between two looks for the state of deleted nodes."""
_MOST_WAITING = 256
"""Messages of one node that wait for the objects: more than cloudhub passes on while the node waits for an answer."""
_NODE = kind_named("Node").name

Refuse = Callable[[Message, ApiError], None]
"""Answers the sender of a message that cannot be handled."""


class EdgeController(Module):
    """The module that answers the upstream messages of nodes, and sends nodes the objects that they need.

    It also makes the API calls of dynamiccontroller, devicecontroller and the router, and `control`'s calls about a
    cluster. It is a client of the API server, a cluster's or the embedded one (`ClusterClient`). Each batch of messages
    is one transaction (`Transactions`), if it uses the database: a status or a change of an object that a node has
    already does not. The module's thread waits for the database, and for nothing else.

    Args:
        cluster: the API server.
        database: stores ObjectSyncs and claims of nodes; outlives a restart of this module.
        refusals: counts refused requests of nodes.
        lease: of this cloudcore, to divide duties between several; None: there can be no other.
        known: gets the names of the live cloudcores.
        watches: of nodes; they outlive a restart of this module, as nodes repeat them only when they connect.
    """

    name: ClassVar[str] = ModuleName.EDGECONTROLLER
    group: ClassVar[str] = Group.EDGECONTROLLER
    side: ClassVar[Side] = Side.CLOUD
    batch_seconds: ClassVar[float] = 0.1
    """A transaction keeps the embedded API server from its own, and registrations of nodes wait."""

    def __init__(
        self,
        cluster: RemoteCluster,
        database: Database,
        refusals: Refusals | None = None,
        lease: LeaseSettings | None = None,
        known: KnownCloudcores | None = None,
        watches: NodeWatches | None = None,
    ) -> None:
        super().__init__()
        self._database = database
        mirror = Mirror(self._keeps)
        self._graph = NodeGraph(mirror, self.clock)
        object_syncs = self._object_syncs = ObjectSyncs(database.put_object_sync)
        self._transactions = Transactions(mirror, database, self)
        self._kubelet_ports = KubeletPorts(self)
        sender = CloudHubSender(self, self._transactions, mirror.bodies)
        may_send = partial(may_read, graph=self._graph)
        watches = NodeWatches() if watches is None else watches
        self._downstream = DownstreamController(
            mirror,
            object_syncs,
            sender.send_down,
            may_send,
            self,
            watches,
            confirm=self._confirm_end,
            check=self._check_untold,
            may_lose_records=cluster.keeps_state,
        )
        self._connections = NodeConnections(
            database, mirror, object_syncs, self._downstream, sender.close_connection, self.clock.now
        )
        access_control = AccessControl(self._graph, Refusals(self.clock) if refusals is None else refusals)
        known = self._known = KnownCloudcores() if known is None else known
        self._is_told = cluster.is_embedded
        """Whether the API server tells it when another cloudcore may have changed the database."""
        self._duties = Duties(lease, database.cloudcore, self, known, self._perform_own, self._list_again)
        self._states = StoredStates(database, mirror, object_syncs, self._connections.epochs, self._downstream.newest)
        self._kept = KeptBodies(mirror.bodies, self._downstream.locations, database, known, self.call_soon)
        self._client = ClusterClient(
            cluster,
            self,
            self._transactions,
            self._loaded,
            mirror=mirror,
            downstream=self._downstream,
            connections=self._connections,
            states=self._states,
        )
        self._calls = NodeCalls(cluster, mirror.bodies, self._client, access_control, self._downstream)
        self._callers = ApiCallers(self._calls, access_control, self._graph, self._downstream)
        self.failures = Failures()
        self._handled = HandledMessages(self, cluster.counters.node_requests)
        self._upstream = UpstreamController(
            self.clock,
            self._calls,
            access_control,
            self._downstream,
            sender,
            self._handled,
            connection_of=self._connections.last_connection_of,
            handle=partial(self._handle, begins=False),  # most requests of nodes do not use the database
            read=partial(UpstreamRequest.of, knows_all=lambda: self._client.knows_all, known_since=cluster.known_since),
            admits_statuses=cluster.is_embedded,
        )
        self._csi_nodes = CsiNodes(mirror.bodies, self._perform_own, self.call_soon)
        self._waiting: deque[Callable[[], None]] = deque()
        """Work that came before the objects were loaded, or while earlier such work still waited."""
        self._waiting_of: Counter[str] = Counter()
        """How much of it is a node's, by its name; "" for the rest."""

    def on_start(self) -> None:
        """Start to list and watch the objects."""
        self._transact(self._connections.epochs.load)
        self._transact(self._kept.load)
        self._client.start()
        self.call_soon(self._wait)
        self.every(_RESEND_PERIOD, Resending(self, self._transact, self._downstream, self._object_syncs).begin)
        self.every(_COLLECTION_PERIOD, lambda: self._transact(self._states.collect))
        self.every(LOOK_PERIOD, self._kept.collect)
        if not self._is_told:
            poll_for_changes(self, self._database, self._poll_database, lambda: self._known.is_alone)

    def on_end(self) -> None:
        """Leave the database as it was after the last transaction; a restarted module loads it."""
        self._client.calls.stop()
        self._transactions.abandon()

    def give_up(self, message: Message) -> None:
        """Answer a message of a node with an error."""
        self._upstream.give_up(message)

    def is_batch_full(self) -> bool:
        """Return whether the transaction has enough to write and to send."""
        return self._transactions.is_long

    def on_batch_end(self) -> None:
        """Commit the changes of the batch, send the messages that follow from them, and report the handled messages
        to cloudhub.
        """
        self._transactions.commit()
        if self._client.devices.noted:
            self._client.devices.notify()
        if self._kubelet_ports.noted:
            self._kubelet_ports.notify()
        self._handled.report()

    @handles_requests
    def on_request(self, message: Message) -> None:
        """Handle a query or a report of a node."""
        reported = message.subject_on_cloud.type
        then = None
        if reported == ResourceType.NODESTATUS:
            then = partial(self._downstream.edge_mesh.record_report, message)
        elif reported == ResourceType.NODEPATCH:
            then = partial(self._csi_nodes.patched, message)
        self._upstream.answer(message, HANDLERS[reported, message.route.operation], then)

    @handles(ResourceType.NODE, Operation.INSERT)
    def on_node_insert(self, message: Message) -> None:
        """Register a node, at each start of its process, and send it all its objects, because its store may be new;
        but not objects already sent over the same connection.
        """
        node = message.route.resource.split("/")[1]
        connection = self._connections.connection_of(node)

        def registered() -> None:
            self._transactions.collect_changes()
            resource = message.subject_on_cloud
            if resource.name == resource.node:
                self._connections.registered(node, connection)
                self._csi_nodes.registered(node)

        self._upstream.answer(message, upstream_nodes.insert, registered)

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_connected(self, message: Message) -> None:
        """Claim a connected node for this cloudcore, and send it unacknowledged objects. A failure closes its
        connection, and the node connects again.
        """
        node = message.route.resource.partition("/")[2]

        def refuse(_: Message, __: ApiError) -> None:
            self._connections.close(node)
            self._kept.connected(node)

        def claim() -> None:
            event = message.content_as(ConnectEvent)

            def connected() -> None:
                self._client.carry_out(node, self._connections.connected(event))
                self._kept.connected(node)

            def superseded() -> None:
                self._connections.refuse(event)
                self._kept.connected(node)

            self._kept.connecting(node)
            self._connections.connecting(event)
            self._client.claims.claim(event, lambda: self._handle(message, connected, refuse), superseded)

        self._handle(message, claim, refuse)

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_disconnected(self, message: Message) -> None:
        """Remove a disconnected node; its lease decides whether it is ready.

        The inbox may hold the end of a connection before its beginning: it takes the slot of an earlier connection's
        end, as the inbox keeps only the newest of such messages.
        """

        def disconnected() -> None:
            event = message.content_as(ConnectEvent)
            self._client.carry_out(event.client_id, self._connections.disconnected(event))

        self._handle(message, disconnected)

    @handles(None, ACKNOWLEDGED, source=ModuleName.CLOUDHUB)
    def on_acknowledged(self, message: Message) -> None:
        """Record the objects, or deletions, that nodes have stored."""
        self._handle(message, lambda: self._connections.acknowledged(message.content_as(list[Acknowledged])))

    @handles(None, Verb.CALL, source=ModuleName.DYNAMICCONTROLLER)
    def on_call(self, message: Message) -> None:
        """Make an API call of a node's metaserver, which came through dynamiccontroller."""
        self._call(message, of_node=True)

    @handles(None, Verb.CALL, source=ModuleName.DEVICECONTROLLER)
    @handles(None, Verb.CALL, source=ModuleName.ROUTER)
    @handles(None, Verb.CALL, source=ModuleName.CLOUDSTREAM)
    @handles(None, Verb.CALL, source=ModuleName.TASKMANAGER)
    @handles(None, Verb.CALL, source=IDENTITIES)
    @handles(None, Verb.CALL, source=api_messages.SOURCE)
    def on_administrators_call(self, message: Message) -> None:
        """Make an API call of a module of the cloud: of an administrator without authorization, of a node that calls
        over TCP with it.
        """
        self._call(message, of_node=False)

    @handles(None, Verb.WATCH, source=ModuleName.DEVICECONTROLLER)
    @handles(None, Verb.WATCH, source=api_messages.SOURCE)
    def on_watch(self, message: Message) -> None:
        """Reply with the beginning of a watch of another module, which gets all later changes."""

        def begin() -> None:
            query = message.content_as(WatchQuery)
            self._transactions.after_commit(lambda: self.reply(message, self._client.devices.start_watch(query)))

        def refuse(_: Message, error: ApiError) -> None:
            refused = WatchStart(refusal=error.status())
            self._transactions.after_commit(lambda: self.reply(message, refused))

        self._handle(message, begin, refuse)

    @handles(None, CLOUDCORES, source=ModuleName.ROUTER)
    @handles(None, CLOUDCORES, source=api_messages.SOURCE)
    def on_cloudcores(self, message: Message) -> None:
        """Reply with the cloudcores that are alive, and the nodes that each has; only one node, if that is named."""

        def answer(nodes: Mapping[str, str]) -> None:
            found = Cloudcores(self._database.cloudcore, self._duties.alive, dict(nodes))
            self._transactions.after_commit(lambda: self.reply(message, found))

        self._transactions.begin()
        if not self._client.claims.holders(message.content_as(str), answer):
            answer(self._database.claims())

    @handles(None, RELEASE_LEASE, source=api_messages.SOURCE)
    def on_release_lease(self, message: Message) -> None:
        """Give up the Lease, as cloudcore is stopping, and reply when it is deleted."""
        self._duties.release(lambda: self._transactions.after_commit(lambda: self.reply(message)))

    @handles(None, Verb.CHANGED_ELSEWHERE, source=api_messages.MODULE, overflow=OverflowPolicy.STATE)
    def on_changed_elsewhere(self, _message: Message) -> None:
        """Take over the claims of other cloudcores, as the API server has noticed a change."""
        self._poll_database()

    def _poll_database(self) -> None:
        """Take over the claims of other cloudcores."""
        if self._transactions.adopt():
            self.end_batch()
        else:
            self._transact(lambda: None)

    def _call(self, message: Message, *, of_node: bool) -> None:
        def answer(result: ApiResult) -> None:
            self._transactions.after_commit(lambda: self.reply(message, result))

        def call() -> None:
            make = self._callers.call_of_node if of_node else self._callers.call
            make(message.content_as(ApiCall), answer)

        self._handle(message, call, lambda _message, error: answer(ApiResult(refusal=error.status())))

    def _perform_own(self, call: ApiCall, answered: Answered) -> None:
        """Make an API call of this cloudcore itself."""
        self._transact(lambda: self._transactions.attempt(partial(self._calls.perform, call, answered, "")))

    def mirrors(self, kind: str) -> bool:
        """Return whether all objects of a kind are here (`MirroredObjects`)."""
        return self._client.reflectors.mirrors(kind)

    def mirror(self, kind: Kind) -> bool:
        """Begin to mirror a kind that nodes watch (`MirroredObjects`)."""
        return self._client.reflectors.mirror(kind)

    def is_missing(self, key: ObjectKey) -> bool:
        """Return whether only a part of an object is here (`MirroredObjects`)."""
        return self._client.bodies.is_missing(key)

    def _keeps(self, key: ObjectKey, obj: JsonObject, size: int) -> bool:
        return self._kept.keeps(key, obj, size)

    def _confirm_end(self, key: ObjectKey, uid: str, then: Callable[[], None]) -> None:
        self._client.restores.confirm_end(key, uid, then)

    def _check_untold(self, key: ObjectKey, uid: str) -> None:
        self._client.restores.check_untold(key, uid)

    def _list_again(self) -> None:
        self._client.reflectors.list_again()

    def _handle(
        self,
        message: Message,
        work: Callable[[], None],
        refuse: Refuse | None = None,
        *,
        begins: bool = True,
        waits: bool = True,
    ) -> None:
        """Do the work of one message, after earlier work (`waits`) that has come before the objects. When it fails,
        nothing of it remains, and `refuse` answers the sender. `begins` is as for `Transactions.attempt`.

        Raises:
            DatabaseError: the transaction is lost. The supervisor restarts the module, and the message is tried again.
        """
        if waits and (self._waiting or not self._client.is_ready):
            self._handle_late(message, work, refuse, begins)
            return
        try:
            self._transactions.attempt(work, begins=begins)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001 - one sender's message must not stop the module for all
            refusal = self.failures.refusal_of(message, error)
            if refuse is not None:
                refuse(message, refusal)

    def _handle_late(self, message: Message, work: Callable[[], None], refuse: Refuse | None, begins: bool) -> None:
        sender = origin_of(message)[0] if refuse is not None and message.route.resource.startswith("node/") else ""
        if sender and self._waiting_of[sender] >= _MOST_WAITING:
            self._handle(message, _refuse_to_wait, refuse, begins=begins, waits=False)
            return

        def handle() -> None:
            self._waiting_of[sender] -= 1
            if not self._waiting_of[sender]:
                del self._waiting_of[sender]
            self._handle(message, work, refuse, begins=begins, waits=False)

        self._waiting_of[sender] += 1
        self._waiting.append(handle)

    def _transact(self, work: Callable[[], None]) -> None:
        """Do work in a transaction of its own, or in the present one."""
        is_part = self._transactions.is_under_way
        self._transactions.begin()
        work()
        if not is_part:
            self.end_batch()

    def _wait(self) -> None:
        if not self._client.is_ready:
            self.announce_not_ready("the objects of the cluster are not listed yet")

    def _loaded(self) -> None:
        """Begin to serve the connected nodes, and handle the messages that have come meanwhile."""
        if self.slot.readiness.state is State.NOT_READY:
            self.announce_ready()
        self._transactions.begin()
        for node in reversed(self._connections.restore()):
            self._waiting.appendleft(partial(self._client.restore, node))
        self._downstream.resume_watches()
        self._states.begin_collecting()
        self._duties.begin(self._client)
        self.end_turn_soon()
        if self.slot.restarts:
            MissedConnections(self, self, self._database).ask()
        if self._waiting:
            self.call_soon(self._do_waiting)

    def _do_waiting(self) -> None:
        """Handle a portion of the waiting messages: a crowd of nodes sends a starting cloudcore many."""
        self._transactions.begin()
        ends_at = self.clock.monotonic() + self.batch_seconds
        for _ in range(self.batch_limit):
            if not self._waiting or not self._client.is_ready:
                break
            self._waiting.popleft()()
            if self.clock.monotonic() >= ends_at or self.is_batch_full():
                break
        self.end_batch()
        if self._waiting and self._client.is_ready:
            self.call_soon(self._do_waiting)

    def object_changed(self, event: ObjectEvent) -> None:
        """Send a change to the nodes and the modules of the cloud that need it (`HandlesChanges`)."""
        kind = event.key.kind
        if kind in DEVICES:
            self._client.devices.observe(event)
        elif kind == _NODE:
            self._kubelet_ports.observe(event)
        self._graph.handle_event(event)
        self._downstream.handle_event(event)
        if kind == _NODE:
            self._kept.handle_event(event)
            if event.type is not EventType.MODIFIED:
                self._connections.node_changed(event)

    def nodes_claimed(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """Leave nodes to the cloudcores that they have connected to (`HandlesChanges`)."""
        self._kept.claimed((node, holder.cloudcore) for node, holder in claims)
        self._connections.claimed_elsewhere(claims)

    def changes_rolled_back(self, events: list[ObjectEvent], nodes: set[str]) -> None:
        """Take changes back (`HandlesChanges`)."""
        for event in events:
            self._graph.roll_back(event)
            self._downstream.roll_back(event)
        self._connections.roll_back(nodes)


def _refuse_to_wait() -> None:
    """Raise the error of a message for which there is no room."""
    why = "cloudcore does not know the API server's objects yet, and too many messages of the node wait for them"
    raise RefusedError(failure(HTTPStatus.SERVICE_UNAVAILABLE, why).refusal or {})
