"""The module edgecontroller."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from beehive.delivery import OverflowPolicy
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType
from beehive.resource import Resource, Side, type_of
from modules.cloud.apiserver import api_calls, commands
from modules.cloud.apiserver.authorization.access_control import AccessControl
from modules.cloud.apiserver.authorization.attributes import of_call
from modules.cloud.apiserver.authorization.graph import NodeGraph
from modules.cloud.apiserver.authorization.node_authorizer import may_read
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.commands import Verb
from modules.cloud.apiserver.database.database import Database
from modules.cloud.apiserver.database.errors import DatabaseError
from modules.cloud.apiserver.database.listener import DatabaseListener, Listen, can_listen
from modules.cloud.apiserver.errors import ApiError, RefusedError
from modules.cloud.apiserver.kinds import kind_named
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.scheduler import makes_room
from modules.cloud.apiserver.storage import EventType, ObjectEvent
from modules.cloud.apiserver.transactions import Transactions
from modules.cloud.apiserver.watch_history import ObjectChanged, ObjectChanges, WatchHistory, WatchQuery, WatchStart
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.edgecontroller import upstream_nodes
from modules.cloud.edgecontroller.downstream_controller import DownstreamController
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage
from modules.cloud.edgecontroller.failures import Failures
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.object_syncs import ObjectSyncs
from modules.cloud.edgecontroller.responses import UpstreamResponse, error_response, status_error
from modules.cloud.edgecontroller.upstream import forbidden_responses, handler_of, handles_requests
from modules.cloud.edgecontroller.upstream_attributes import attributes_of
from modules.cloud.edgecontroller.upstream_requests import Steps, UpstreamHandler, UpstreamRequest, UpstreamResult
from modules.cloud.messages import ACKNOWLEDGED, HANDLED, HANDLED_RESOURCE, Acknowledged, ConnectEvent, SessionTakenOver
from modules.cloud.refusals import Refusals

T = TypeVar("T")

_MANIFESTS_PERIOD = 1.0
"""Seconds between two reads of the manifests."""
_POLL_PERIOD = 0.25
"""Seconds between two polls for the changes of other cloudcores."""
_POLL_PERIOD_WITH_NOTIFICATIONS = 5.0
_RESEND_PERIOD = 10.0
"""Seconds between two checks for unacknowledged objects (KubeEdge's sync controller: 5)."""
_NODE = kind_named("Node").name
_POD, _VOLUME = kind_named("Pod"), kind_named("PersistentVolume")
_HELD = {
    kind_named(kind).singular: kind_named(kind)
    for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment")
}


class EdgeController(Module):
    """Answers the upstream messages of nodes, and sends nodes the objects that they need.

    It also runs the embedded API server: it carries out the calls of `control` and dynamiccontroller, and applies a
    directory of manifests. Each batch of messages is one transaction (`Transactions`). The module's thread waits for
    the database; nothing else could be done meanwhile.

    Args:
        cluster: the embedded API server; made by the process, so it outlives a restart of this module.
        database: stores the cluster; outlives a restart, too.
        manifests: a watched directory, or None.
        refusals: counts refused requests of nodes.
    """

    name: ClassVar[str] = ModuleName.EDGECONTROLLER
    group: ClassVar[str] = Group.EDGECONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self,
        cluster: Cluster,
        database: Database,
        manifests: ManifestDirectory | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._database = database
        self._manifests = manifests
        self._graph = NodeGraph(cluster.storage)
        object_syncs = ObjectSyncs(database.put_object_sync)
        may_send = partial(may_read, graph=self._graph)
        self._downstream = DownstreamController(cluster, object_syncs, self._send_down, may_send)
        self._connections = NodeConnections(
            database, cluster.storage, object_syncs, self._downstream, self._close_connection
        )
        self._transactions = Transactions(
            cluster.storage, database, self._changed, self._connections.claimed_elsewhere, self._rolled_back
        )
        self._access_control = AccessControl(self._graph, Refusals(self.clock) if refusals is None else refusals)
        self._history = WatchHistory(cluster.storage)
        """Begins anew with what was loaded: of what was deleted before that, it knows nothing."""
        self._noted: list[ObjectChanged] = []
        """Committed changes of which watches are not told yet."""
        self.failures = Failures()
        self._may_place = True
        """Whether something has changed since the last attempt that may let a waiting pod onto a node."""
        self._handled: Counter[str] = Counter()
        """Handled messages by node, not yet reported to cloudhub."""

    def on_start(self) -> None:
        """Loads database and manifests, and starts to watch both."""
        self._transact(self._load)
        self._history = WatchHistory(self._cluster.storage)
        self.every(_RESEND_PERIOD, lambda: self._transact(self._downstream.resend_unacknowledged))
        if self._database.shared:
            listens = can_listen(self._database.engine)
            self.every(_POLL_PERIOD_WITH_NOTIFICATIONS if listens else _POLL_PERIOD, self.poll_database)
            if listens:
                listener = self.start_actor(DatabaseListener, self._database.engine, self._notified)
                listener.tell(Listen())
        if self._manifests is not None:
            self.every(_MANIFESTS_PERIOD, self._sync_manifests)

    def on_stop(self) -> None:
        """Leaves the database as it was after the last transaction."""
        self._transactions.abandon()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Leaves the database as it was after the last transaction; the restarted module loads it."""
        self._transactions.abandon()
        super().on_failure(exception_type, exception_value, traceback)

    def on_batch_end(self) -> None:
        """Commits the changes of the batch, sends the messages that follow from them, and reports the handled messages
        to cloudhub.
        """
        self._place_waiting_pods()
        self._commit()
        if self._handled:
            handled, self._handled = dict(self._handled), Counter()
            self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, handled))

    @handles_requests
    def on_request(self, message: Message) -> None:
        """Handles a query or a report of a node."""
        self._answered(message, lambda: self._answer(message, handler_of(message)))

    @handles(ResourceType.NODE, Operation.INSERT)
    def on_node_insert(self, message: Message) -> None:
        """Registers a node, at each start of its process, and sends it all its objects: its store may be new, and
        cloudhub forgets the acknowledgements of an earlier process.
        """

        def register() -> None:
            self._answer(message, upstream_nodes.insert)
            self._transactions.note_changes()
            resource = Resource.parse(message.route.resource, Side.CLOUD)
            if resource.name == resource.node:
                self._connections.registered(resource.node)

        self._answered(message, register)

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_connected(self, message: Message) -> None:
        """Claims a connected node for this cloudcore, and sends it unacknowledged objects. A failure closes its
        connection, and the node connects again.
        """
        node = message.route.resource.partition("/")[2]
        self._handle(
            message,
            lambda: self._connections.connected(message.content_as(ConnectEvent)),
            lambda _message, _error: self._connections.close(node),
        )

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_disconnected(self, message: Message) -> None:
        """Removes a disconnected node; its lease says whether it is ready.

        The inbox may hold the end of a connection before its beginning: it takes the slot of an earlier connection's
        end, as the inbox keeps only the newest of such messages.
        """
        self._handle(message, lambda: self._connections.disconnected(message.content_as(ConnectEvent)))

    @handles(None, ACKNOWLEDGED, source=ModuleName.CLOUDHUB)
    def on_acknowledged(self, message: Message) -> None:
        """Records the objects, or deletions, that nodes have stored."""
        self._handle(message, lambda: self._connections.acknowledged(message.content_as(list[Acknowledged])))

    @handles(None, Verb.CALL, source=ModuleName.DYNAMICCONTROLLER)
    def on_call(self, message: Message) -> None:
        """Carries out an API call of a node's metaserver, which came through dynamiccontroller."""
        self._call(message, self._serve_node)

    @handles(None, Verb.CALL, source=commands.SOURCE)
    def on_administrators_call(self, message: Message) -> None:
        """Carries out an API call of module `control`: of an administrator without authorization, of a node that calls
        over TCP with it. The simulation writes this way, in place of people and controllers.
        """
        self._call(message, self._serve_call)

    @handles(None, Verb.WATCH, source=commands.SOURCE)
    def on_watch(self, message: Message) -> None:
        """Replies with the beginning of a watch of module `control`, which gets all later changes."""

        def begin() -> None:
            query = message.content_as(WatchQuery)
            self._transactions.after_commit(lambda: self.reply(message, self._history.start(query)))

        def refuse(_: Message, error: ApiError) -> None:
            refused = WatchStart(refusal=error.status())
            self._transactions.after_commit(lambda: self.reply(message, refused))

        self._handle(message, begin, refuse)

    def poll_database(self) -> None:
        """Takes over the changes of other cloudcores, by an empty transaction."""
        self._transact(lambda: None)

    def _call(self, message: Message, serve: Callable[[ApiCall], ApiResult]) -> None:
        def answer(result: ApiResult) -> None:
            self._transactions.after_commit(lambda: self.reply(message, result))

        def call() -> None:
            answer(serve(message.content_as(ApiCall)))

        def refuse(_: Message, error: ApiError) -> None:
            answer(ApiResult(refusal=error.status()))

        try:
            self._handle(message, call, refuse)
        except api_calls.DryRunError as end:
            answer(end.result)

    def _serve_call(self, call: ApiCall) -> ApiResult:
        if call.node:
            return self._serve_node(call)
        return api_calls.serve(self._cluster, call, knows_all=self._knows_all())

    def _serve_node(self, call: ApiCall) -> ApiResult:
        self._access_control.authorize(of_call(call.node, call))
        with self._cluster.with_admission(self._access_control.admission(call.node)):
            return api_calls.serve(self._cluster, call, knows_all=self._knows_all())

    def _note_holder(self, request: UpstreamRequest, resource_type: str) -> None:
        """Records a query for an object that nodes store: the node must receive later changes of the object, and its
        creation, too.
        """
        held = _HELD.get(resource_type)
        if held is not None:
            self._downstream.note_holder(request.key(held), request.node)

    def _handle(
        self, message: Message, work: Callable[[], None], refuse: Callable[[Message, ApiError], None] | None = None
    ) -> None:
        """Does the work of one message. When it fails, nothing of it remains, and `refuse` answers the sender.

        Raises:
            DatabaseError: the transaction is lost. The supervisor restarts the module, and the message is tried again.
            DryRunError: the work was a dry run; nothing of it remains.
        """
        try:
            self._transactions.attempt(work)
        except (DatabaseError, api_calls.DryRunError):
            raise
        except Exception as error:  # noqa: BLE001 - one sender's message must not stop the module for all
            refusal = self.failures.refusal_of(message, error)
            if refuse is not None:
                refuse(message, refusal)

    def _answer(self, message: Message, handler: UpstreamHandler) -> None:
        """Authorizes and handles a message of a node, and sends the responses."""
        request = UpstreamRequest.of(message, manifests_loaded=self._knows_all(), now=self.clock.now())
        resource_type = type_of(message.route.resource, Side.CLOUD)
        self._access_control.authorize(attributes_of(resource_type, message.route.operation, request))
        self._note_holder(request, resource_type)
        with self._cluster.with_admission(self._access_control.admission(request.node)):
            results = self._run(handler(request))
        self._send_results(message, results)

    def _run(self, steps: Steps[T]) -> T:
        """Makes the requests of a handler, and returns its result."""
        try:
            call = next(steps)
            while True:
                result = api_calls.serve(self._cluster, call)
                if result.refusal is None:
                    call = steps.send(result.object or {})
                else:
                    call = steps.throw(RefusedError(result.refusal))
        except StopIteration as end:
            return cast("T", end.value)

    def _send_results(self, message: Message, results: Iterable[UpstreamResult]) -> None:
        for result in results:
            if isinstance(result, UpstreamResponse):
                self._send_response(message, result)
            else:
                self._downstream.send(result)

    def _answered(self, message: Message, work: Callable[[], None]) -> None:
        """Does the work of a node's message, or refuses it; either way the message counts as handled."""
        self._handle(message, work, self._refuse)
        self._handled[Resource.parse(message.route.resource, Side.CLOUD).node] += 1

    def _refuse(self, message: Message, error: ApiError) -> None:
        """Sends an error. To a query it has a lister's form: an edge would store the bare error as the object, as
        KubeEdge's metamanager does.
        """
        if error.code == HTTPStatus.FORBIDDEN:
            self._send_results(message, forbidden_responses(message, error))
            return
        is_query = message.route.operation == Operation.QUERY and error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        self._send_response(message, error_response(error) if is_query else status_error(error))

    def _place_waiting_pods(self) -> None:
        """Places pods that wait for a node, in the transaction, after a change that may have made room for them."""
        if self._may_place:
            self._may_place = False
            if self._cluster.waiting_pods():
                self._transactions.attempt(self._cluster.place_waiting_pods)

    def _notified(self) -> None:
        self.call_soon(self.poll_database)

    def _transact(self, work: Callable[[], None]) -> None:
        """Does work in a transaction of its own, or in the one that has begun."""
        is_part = self._database.in_transaction
        self._transactions.begin()
        work()
        if not is_part:
            self._commit()

    def _commit(self) -> None:
        """Commits the transaction, and passes its changes on to `control` for watches, in one message: a message for
        each would overflow its inbox when a large manifest is applied.
        """
        self._transactions.commit()
        if self._noted:
            changes, self._noted = tuple(self._noted), []
            self.broadcast(commands.SOURCE, self.message(commands.RESOURCE, Verb.CHANGED, ObjectChanges(changes)))

    def _load(self) -> None:
        self._downstream.index_pods()
        for kind in (_POD, _VOLUME):
            self._graph.add_objects(self._cluster.list(kind))
        if self._manifests is not None:
            self._manifests.reset()
            self._manifests.sync()
            self._transactions.note_changes()
        self._place_waiting_pods()
        self._connections.restore()

    def _knows_all(self) -> bool:
        """Returns whether a missing object was deleted. With a new database it may have been lost with an old one, and
        nodes must not delete their pods for that.
        """
        has_past = self._database.outlives_process and not self._database.is_new
        return has_past or (self._manifests is not None and self._manifests.loaded)

    def _sync_manifests(self) -> None:
        if self._manifests is not None:
            self._transact(self._manifests.sync)

    def _changed(self, event: ObjectEvent) -> None:
        """Sends a change to the nodes that need it, and to `control` for watches."""
        self._may_place = self._may_place or makes_room(event)
        self._graph.handle_event(event)
        self._downstream.handle_event(event)
        if event.key.kind == _NODE and event.type is EventType.DELETED:
            self._connections.forget(event.key.name, elsewhere=self._transactions.is_adopting)
        if self.hive.members(commands.SOURCE):
            self._transactions.after_commit(lambda: self._noted.append(self._history.note(event)))

    def _rolled_back(self, events: list[ObjectEvent], nodes: set[str]) -> None:
        for event in events:
            self._graph.roll_back(event)
            self._downstream.roll_back(event)
        self._connections.roll_back(nodes)

    def _close_connection(self, node: str, connection: str) -> None:
        taken = self.message(f"node/{node}", Operation.DISCONNECTED, SessionTakenOver(connection), group=Group.RESOURCE)
        self._transactions.after_commit(partial(self.send, ModuleName.CLOUDHUB, taken))

    def _send_down(self, down: DownstreamMessage) -> None:
        sent = self.message(
            down.resource, down.operation, down.content, group=Group.RESOURCE, resourceversion=down.version
        )
        self._transactions.after_commit(partial(self.send, ModuleName.CLOUDHUB, sent))

    def _send_response(self, request: Message, answer: UpstreamResponse) -> None:
        reply = request.reply(self.clock, answer.content, source=self.name)
        resource = Resource.parse(request.route.resource, Side.CLOUD)
        if answer.resource_type:
            resource = msgspec.structs.replace(resource, type=answer.resource_type)
        routed = reply.with_route(group=Group.RESOURCE, resource=str(resource))
        sent = routed.with_header(resourceversion=answer.version)
        self._downstream.note_response(resource.node, answer.content)
        self._transactions.after_commit(partial(self.send, ModuleName.CLOUDHUB, sent))
