"""The module edgecontroller."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from beehive.delivery import OverflowPolicy
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType
from beehive.resource import Resource, Side, type_of
from beehive.slot import State
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
from modules.cloud.apiserver.errors import ApiError
from modules.cloud.apiserver.kinds import kind_named
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.object_store import ObjectStore
from modules.cloud.apiserver.storage import EventType, ObjectEvent
from modules.cloud.apiserver.transactions import Transactions
from modules.cloud.apiserver.watch_history import ObjectChanges, WatchQuery, WatchStart
from modules.cloud.client.calls import UNWATCH, WATCH, ApiCall, ApiResult
from modules.cloud.edgecontroller import upstream_nodes
from modules.cloud.edgecontroller.api_engine import ApiEngine
from modules.cloud.edgecontroller.cloudhub_sender import CloudHubSender
from modules.cloud.edgecontroller.cluster_api import ClusterApi, RemoteCluster
from modules.cloud.edgecontroller.downstream_controller import DownstreamController
from modules.cloud.edgecontroller.embedded_api import EmbeddedApi
from modules.cloud.edgecontroller.failures import Failures
from modules.cloud.edgecontroller.mirror import Mirror
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.object_syncs import ObjectSyncs
from modules.cloud.edgecontroller.procedure import Answered, Procedure
from modules.cloud.edgecontroller.responses import UpstreamResponse
from modules.cloud.edgecontroller.upstream import handler_of, handles_requests, refusal_responses
from modules.cloud.edgecontroller.upstream_attributes import attributes_of
from modules.cloud.edgecontroller.upstream_requests import UpstreamHandler, UpstreamRequest, UpstreamResult
from modules.cloud.messages import ACKNOWLEDGED, HANDLED, HANDLED_RESOURCE, Acknowledged, ConnectEvent
from modules.cloud.refusals import Refusals

_MANIFESTS_PERIOD = 1.0
"""Seconds between two reads of the manifests."""
_POLL_PERIOD = 0.25
"""Seconds between two polls for the changes of other cloudcores."""
_POLL_PERIOD_WITH_NOTIFICATIONS = 5.0
_RESEND_PERIOD = 10.0
"""Seconds between two checks for unacknowledged objects (KubeEdge's sync controller: 5)."""
_COLLECTION_PERIOD = 600.0
"""Seconds between two looks for the state of deleted nodes."""
_NODE = kind_named("Node").name
_POD, _VOLUME = kind_named("Pod"), kind_named("PersistentVolume")


class EdgeController(Module):
    """Answers the upstream messages of nodes, and sends nodes the objects that they need.

    It also makes the API calls of `control` and dynamiccontroller. The API server is the embedded one, whose objects
    and manifests it keeps, or that of a cluster (`ApiEngine`). Each batch of messages is one transaction
    (`Transactions`). The module's thread waits for the database, and for nothing else.

    Args:
        cluster: the embedded API server, made by the process, so that it outlives a restart of this module; or a
            cluster's.
        database: stores ObjectSyncs and the embedded API server's objects; outlives a restart, too.
        manifests: a watched directory for the embedded API server, or None.
        refusals: counts refused requests of nodes.
    """

    name: ClassVar[str] = ModuleName.EDGECONTROLLER
    group: ClassVar[str] = Group.EDGECONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self,
        cluster: Cluster | RemoteCluster,
        database: Database,
        manifests: ManifestDirectory | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        super().__init__()
        self._database = database
        mirror = Mirror()
        storage: ObjectStore = cluster.storage if isinstance(cluster, Cluster) else mirror
        self._graph = NodeGraph(storage)
        object_syncs = ObjectSyncs(database.put_object_sync)
        self._transactions = Transactions(storage, database, self._changed, self._claimed, self._rolled_back)
        sender = self._sender = CloudHubSender(self, self._transactions)
        may_send = partial(may_read, graph=self._graph)
        self._downstream = DownstreamController(storage, object_syncs, sender.send_down, may_send, self._mirrors)
        self._connections = NodeConnections(database, storage, object_syncs, self._downstream, sender.close_connection)
        self._access_control = AccessControl(self._graph, Refusals(self.clock) if refusals is None else refusals)
        self._manifests = manifests
        engine: Callable[..., ApiEngine] = (
            partial(EmbeddedApi, cluster, database, manifests)
            if isinstance(cluster, Cluster)
            else partial(
                ClusterApi,
                cluster,
                self,
                mirror=mirror,
                end_turn=self._end_turn_soon,
                downstream=self._downstream,
                connections=self._connections,
            )
        )
        self._api = engine(self._access_control, self._transactions, self._loaded)
        self.failures = Failures()
        self._handled: Counter[str] = Counter()
        """Handled messages by node, not yet reported to cloudhub."""
        self._waiting: list[Callable[[], None]] = []
        """What came before the objects were loaded."""
        self._ends_turn = False
        """Whether the end of the present turn is in the inbox."""

    def on_start(self) -> None:
        """Loads the objects, and starts to watch them."""
        self._transact(self._load)
        if not self._api.is_ready:
            self.call_soon(self._wait)
        self.every(_RESEND_PERIOD, lambda: self._transact(self._downstream.resend_unacknowledged))
        self.every(_COLLECTION_PERIOD, lambda: self._transact(self._connections.collect))
        if self._database.shared:
            listens = can_listen(self._database.engine)
            self.every(_POLL_PERIOD_WITH_NOTIFICATIONS if listens else _POLL_PERIOD, self.poll_database)
            if listens:
                notified = partial(self.call_soon, self.poll_database)
                self.start_actor(DatabaseListener, self._database.engine, notified).tell(Listen())
        if self._manifests is not None:
            self.every(_MANIFESTS_PERIOD, partial(self._transact, self._manifests.sync))

    def on_stop(self) -> None:
        """Leaves the database as it was after the last transaction."""
        self._api.stop()
        self._transactions.abandon()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Leaves the database as it was after the last transaction; the restarted module loads it."""
        self._api.stop()
        self._transactions.abandon()
        super().on_failure(exception_type, exception_value, traceback)

    def on_batch_end(self) -> None:
        """Commits the changes of the batch, sends the messages that follow from them, and reports the handled messages
        to cloudhub.
        """
        self._api.before_commit()
        self._commit()
        if self._handled:
            handled, self._handled = dict(self._handled), Counter()
            self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, handled))

    @handles_requests
    def on_request(self, message: Message) -> None:
        """Handles a query or a report of a node."""
        self._answer(message, handler_of(message))

    @handles(ResourceType.NODE, Operation.INSERT)
    def on_node_insert(self, message: Message) -> None:
        """Registers a node, at each start of its process, and sends it all its objects: its store may be new, and
        cloudhub forgets the acknowledgements of an earlier process.
        """

        def registered() -> None:
            self._transactions.note_changes()
            resource = Resource.parse(message.route.resource, Side.CLOUD)
            if resource.name == resource.node:
                self._connections.registered(resource.node)

        self._answer(message, upstream_nodes.insert, registered)

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_connected(self, message: Message) -> None:
        """Claims a connected node for this cloudcore, and sends it unacknowledged objects. A failure closes its
        connection, and the node connects again.
        """
        node = message.route.resource.partition("/")[2]

        def refuse(_: Message, __: ApiError) -> None:
            self._connections.close(node)

        def connect() -> None:
            self._handle(message, lambda: self._connections.connected(message.content_as(ConnectEvent)), refuse)

        self._handle(message, lambda: self._api.claim(node, connect), refuse)

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
        """Makes an API call of a node's metaserver, which came through dynamiccontroller."""
        self._call(message, of_node=True)

    @handles(None, Verb.CALL, source=commands.SOURCE)
    def on_administrators_call(self, message: Message) -> None:
        """Makes an API call of module `control`: of an administrator without authorization, of a node that calls over
        TCP with it. The simulation writes this way, in place of people and controllers.
        """
        self._call(message, of_node=False)

    @handles(None, Verb.WATCH, source=commands.SOURCE)
    def on_watch(self, message: Message) -> None:
        """Replies with the beginning of a watch of module `control`, which gets all later changes."""

        def begin() -> None:
            query = message.content_as(WatchQuery)
            self._transactions.after_commit(lambda: self.reply(message, self._api.start_watch(query)))

        def refuse(_: Message, error: ApiError) -> None:
            refused = WatchStart(refusal=error.status())
            self._transactions.after_commit(lambda: self.reply(message, refused))

        self._handle(message, begin, refuse)

    def poll_database(self) -> None:
        """Takes over the changes of other cloudcores, by an empty transaction."""
        self._transact(lambda: None)

    def _call(self, message: Message, *, of_node: bool) -> None:
        def answer(result: ApiResult) -> None:
            self._transactions.after_commit(lambda: self.reply(message, result))

        def call() -> None:
            asked = message.content_as(ApiCall)
            if of_node and asked.verb == UNWATCH:
                self._downstream.unwatch(asked.node)
                return answer(ApiResult())
            if of_node or asked.node:
                self._access_control.authorize(of_call(asked.node, asked))
            if of_node and asked.verb == WATCH:
                self._downstream.watch(asked)
                return answer(ApiResult())
            return self._api.perform(asked, asked.node, answer)

        try:
            self._handle(message, call, lambda _message, error: answer(ApiResult(refusal=error.status())))
        except api_calls.DryRunError as end:
            answer(end.result)

    def _mirrors(self, kind: str) -> bool:
        return self._api.mirrors(kind)

    def _handle(
        self, message: Message, work: Callable[[], None], refuse: Callable[[Message, ApiError], None] | None = None
    ) -> None:
        """Does the work of one message. When it fails, nothing of it remains, and `refuse` answers the sender.

        Raises:
            DatabaseError: the transaction is lost. The supervisor restarts the module, and the message is tried again.
            DryRunError: the work was a dry run; nothing of it remains.
        """
        if not self._api.is_ready:
            self._waiting.append(partial(self._handle, message, work, refuse))
            return
        try:
            self._transactions.attempt(work)
        except (DatabaseError, api_calls.DryRunError):
            raise
        except Exception as error:  # noqa: BLE001 - one sender's message must not stop the module for all
            refusal = self.failures.refusal_of(message, error)
            if refuse is not None:
                refuse(message, refusal)

    def _answer(self, message: Message, handler: UpstreamHandler, then: Callable[[], None] = lambda: None) -> None:
        """Authorizes and handles a message of a node, and sends the responses; `then` is called after a success. Either
        way the message counts as handled.
        """

        def finished(results: Iterable[UpstreamResult]) -> None:
            self._send_results(message, results)
            then()
            self._count(message)

        def begin() -> None:
            request = UpstreamRequest.of(message, manifests_loaded=self._api.knows_all, now=self.clock.now())
            resource_type = type_of(message.route.resource, Side.CLOUD)
            self._access_control.authorize(attributes_of(resource_type, message.route.operation, request))
            self._downstream.note_query(request, resource_type)

            def perform(call: ApiCall, answered: Answered) -> None:
                self._api.perform(call, request.node, answered)

            Procedure(handler(request), perform, finished, later).start()

        def later(rest: Callable[[], None]) -> None:
            self._handle(message, rest, refused)

        def refused(_: Message, error: ApiError) -> None:
            self._send_results(message, refusal_responses(message, error))
            self._count(message)

        self._handle(message, begin, refused)

    def _count(self, message: Message) -> None:
        self._handled[Resource.parse(message.route.resource, Side.CLOUD).node] += 1

    def _send_results(self, message: Message, results: Iterable[UpstreamResult]) -> None:
        for result in results:
            if isinstance(result, UpstreamResponse):
                self._send_response(message, result)
            else:
                self._downstream.send(result)

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
        noted = self._api.take_noted()
        if noted and self.hive.members(commands.SOURCE):
            self.broadcast(commands.SOURCE, self.message(commands.RESOURCE, Verb.CHANGED, ObjectChanges(noted)))

    def _load(self) -> None:
        self._connections.epochs.load()
        self._downstream.index_pods()
        for kind in (_POD, _VOLUME):
            self._graph.add_objects(self._api.storage.list(kind))
        self._api.start()

    def _wait(self) -> None:
        if not self._api.is_ready:
            self.announce_not_ready("the objects of the cluster are not listed yet")

    def _loaded(self) -> None:
        """Takes up the nodes that are connected, and what has come meanwhile."""
        if self.slot.readiness.state is State.NOT_READY:
            self.announce_ready()
        self._transactions.begin()
        self._connections.restore()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()
        if waiting:
            self._end_turn_soon()

    def _end_turn_soon(self) -> None:
        """Ends the turn after what is in the inbox: continuations are in no batch of messages."""
        if not self._ends_turn:
            self._ends_turn = True
            self.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._ends_turn = False
        self.on_batch_end()

    def _changed(self, event: ObjectEvent) -> None:
        """Sends a change to the nodes that need it, and to `control` for watches."""
        self._api.changed(event)
        self._graph.handle_event(event)
        self._downstream.handle_event(event)
        if event.key.kind == _NODE and event.type is not EventType.MODIFIED:
            self._connections.node_changed(event, elsewhere=self._transactions.is_adopting)

    def _claimed(self, claims: Sequence[tuple[str, str]]) -> None:
        self._connections.claimed_elsewhere(claims)

    def _rolled_back(self, events: list[ObjectEvent], nodes: set[str]) -> None:
        for event in events:
            self._graph.roll_back(event)
            self._downstream.roll_back(event)
        self._connections.roll_back(nodes)

    def _send_response(self, request: Message, answer: UpstreamResponse) -> None:
        node = Resource.parse(request.route.resource, Side.CLOUD).node
        self._downstream.note_response(node, answer.content)
        self._sender.send_response(request, answer)
