"""The module edgecontroller: requests of edges, commands of people and a directory of manifests on one side, the
cluster behind, messages to nodes on the other.

It works in turns (see `turns`), one for each run of messages. Waiting for the database is part of a turn: nothing else
could go on meanwhile.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

import msgspec

from beehive.delivery import Kind
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType
from beehive.resource import Resource, Side, type_of
from modules.cloudhub.connections import ACKNOWLEDGED, HANDLED, HANDLED_RESOURCE, Acknowledged, Connected, Taken
from modules.cloudhub.refusals import Refusals
from modules.edgecontroller import api_calls, commands, upstream_nodes
from modules.edgecontroller.answers import Answer, refusal, status_error
from modules.edgecontroller.authorization.attributes import of_call, of_message
from modules.edgecontroller.authorization.authorizer import may_have
from modules.edgecontroller.authorization.gate import Gate
from modules.edgecontroller.authorization.graph import Graph
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.commands import Changed, Verb
from modules.edgecontroller.database.database import Database
from modules.edgecontroller.database.errors import DatabaseError
from modules.edgecontroller.database.listener import Listen, Listener, can_listen
from modules.edgecontroller.downstream import Downstream
from modules.edgecontroller.errors import ApiError, ForbiddenError
from modules.edgecontroller.failures import Failures
from modules.edgecontroller.feed import Feed
from modules.edgecontroller.kinds import kind_named
from modules.edgecontroller.manifest_directory import ManifestDirectory
from modules.edgecontroller.requests import Handling, Request, Result
from modules.edgecontroller.store import Change, ObjectEvent
from modules.edgecontroller.syncs import Syncs
from modules.edgecontroller.turns import Turns
from modules.edgecontroller.upstream import handles_requests, handling_of, refused

_LOOK_EVERY = 1.0
"""Seconds between looks at the manifests."""
_POLL_EVERY = 0.25
"""Seconds between looks at what other cloudcores have changed."""
_POLL_BESIDE_NOTIFICATIONS = 5.0
_REPEAT_EVERY = 10.0
"""Seconds between looks at what nodes have not acknowledged (KubeEdge's sync controller: 5)."""
_NODE = kind_named("Node").name
_POD, _VOLUME = kind_named("Pod"), kind_named("PersistentVolume")
_HELD = {
    kind_named(kind).singular: kind_named(kind)
    for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment")
}


class EdgeController(Module):
    """See the module's docstring.

    Args:
        cluster: the objects; handed in so that they can be looked at, and outlive a restart of this module.
        database: where they are kept; likewise.
        manifests: the directory that is watched; None: none.
        refusals: where what nodes are refused is counted.
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
        self._syncs = Syncs(database.put_sync)
        self._graph = Graph(cluster.store)
        self._feed = Feed(cluster, self._syncs, self._send_down, partial(may_have, graph=self._graph))
        self._turns = Turns(cluster.store, database, self._changed, self._claimed_elsewhere, self._undone)
        self._gate = Gate(self._graph, Refusals(self.clock) if refusals is None else refusals)
        self.failures = Failures()
        self._handled: Counter[str] = Counter()
        """Messages of each node that were handled, of which cloudhub was not told yet."""
        self._ended: dict[str, str] = {}
        """Of nodes, connections whose end came before their beginning."""

    def on_start(self) -> None:
        """Reads what is in the database and the manifests, and begins to watch both."""
        self._turn(self._take_up)
        self.every(_REPEAT_EVERY, lambda: self._turn(self._feed.repeat))
        if self._database.shared:
            listens = can_listen(self._database.engine)
            self.every(_POLL_BESIDE_NOTIFICATIONS if listens else _POLL_EVERY, self.look_for_changes)
            if listens:
                listener = self.start_actor(Listener, self._database.engine, self._notified)
                listener.tell(Listen())
        if self._manifests is not None:
            self.every(_LOOK_EVERY, self._look)

    def on_stop(self) -> None:
        """Leaves the database as it was after the last turn."""
        self._turns.abandon()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Likewise; the next life reads everything from there."""
        self._turns.abandon()
        super().on_failure(exception_type, exception_value, traceback)

    def on_batch_end(self) -> None:
        """Makes durable what the messages have changed, and tells of it."""
        self._turns.commit()
        if self._handled:
            handled, self._handled = dict(self._handled), Counter()
            self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, handled))

    @handles_requests
    def on_request(self, message: Message) -> None:
        """An edge asks or reports."""
        self._answered(message, lambda: self._answer(message, handling_of(message)))

    @handles(ResourceType.NODE, Operation.INSERT)
    def on_node_insert(self, message: Message) -> None:
        """A node registers, as it does at each start of its process. Its store may be a new one: send what it needs
        (cloudhub has forgotten what an earlier process acknowledged).
        """

        def register() -> None:
            self._answer(message, upstream_nodes.insert)
            self._turns.note_changes()
            resource = Resource.parse(message.route.resource, Side.CLOUD)
            if resource.name == resource.node:
                self._syncs.started_anew(resource.node)
                self._feed.connected(resource.node)

        self._answered(message, register)

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, kind=Kind.STATE)
    def on_connected(self, message: Message) -> None:
        """A node is there, and this cloudcore's from now on: send what it has not acknowledged."""
        self._handle(message, lambda: self._connected(message.content_as(Connected)), self._turn_away)

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB, kind=Kind.STATE)
    def on_disconnected(self, message: Message) -> None:
        """A node is gone; whether it is ready, its lease says. While both wait, the end of a connection may be before
        its beginning: it has taken the place of an earlier connection's.
        """
        self._handle(message, lambda: self._disconnected(message.content_as(Connected)))

    @handles(None, ACKNOWLEDGED, source=ModuleName.CLOUDHUB)
    def on_acknowledged(self, message: Message) -> None:
        """A node has stored objects, or their deletion."""
        self._handle(message, lambda: self._acknowledged(message.content_as(list[Acknowledged])))

    @handles(None, Verb.APPLY, source=commands.SOURCE)
    def on_apply(self, message: Message) -> None:
        """`cloudcore apply`."""
        self._command(message, commands.Apply, commands.apply)

    @handles(None, Verb.GET, source=commands.SOURCE)
    def on_get(self, message: Message) -> None:
        """`cloudcore get`."""
        self._command(message, commands.Get, commands.get)

    @handles(None, Verb.DELETE, source=commands.SOURCE)
    def on_delete(self, message: Message) -> None:
        """`cloudcore delete`."""
        self._command(message, commands.Delete, commands.delete)

    @handles(None, Verb.CALL, source=ModuleName.DYNAMICCONTROLLER)
    def on_call(self, message: Message) -> None:
        """A node's metaserver, through dynamiccontroller."""
        self._call(message, self._called)

    @handles(None, Verb.CALL, source=commands.SOURCE)
    def on_administrators_call(self, message: Message) -> None:
        """Module `control`, which may do everything; the simulation writes so, as controllers and people do."""
        self._call(message, lambda asked: api_calls.call(self._cluster, asked, knows_all=self._knows_all()))

    def _call(self, message: Message, carry_out: Callable[[api_calls.ApiCall], api_calls.ApiResult]) -> None:
        def call() -> None:
            result = carry_out(message.content_as(api_calls.ApiCall))
            self._turns.later(lambda: self.reply(message, result))

        def refuse(_: Message, error: ApiError) -> None:
            refused = api_calls.ApiResult(refusal=error.status())
            self._turns.later(lambda: self.reply(message, refused))

        self._handle(message, call, refuse)

    def _called(self, call: api_calls.ApiCall) -> api_calls.ApiResult:
        self._gate.pass_through(of_call(call.node, call))
        with self._cluster.restricted(self._gate.admission(call.node)):
            return api_calls.call(self._cluster, call, knows_all=self._knows_all())

    def _note_holder(self, message: Message) -> None:
        """A node that asks for a configmap, or for storage, keeps it, and so must hear of its changes; also of its
        coming, when it was not there yet.
        """
        resource = Resource.parse(message.route.resource, Side.CLOUD)
        held = _HELD.get(resource.type)
        if held is not None:
            self._feed.note_holder(Request.of(message, manifests_loaded=True).key(held), resource.node)

    def _handle(
        self, message: Message, work: Callable[[], None], refuse: Callable[[Message, ApiError], None] | None = None
    ) -> None:
        """Does the work of one message. When it fails, nothing of it remains, and `refuse` tells whoever asked.

        Raises:
            DatabaseError: the turn is lost; the supervisor starts the module again, and it is tried again.
        """
        try:
            self._turns.attempt(work)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001 - one sender's message must not stop everybody's module
            refusal = self.failures.refusal_of(message, error)
            if refuse is not None:
                refuse(message, refusal)

    def _answer(self, message: Message, handling: Handling) -> None:
        """What answers a node's message, which the node authorizer has let pass."""
        request = Request.of(message, manifests_loaded=self._knows_all())
        self._gate.pass_through(
            of_message(type_of(message.route.resource, Side.CLOUD), message.route.operation, request)
        )
        self._note_holder(message)
        with self._cluster.restricted(self._gate.admission(request.node)):
            results = handling(self._cluster, request)
        self._send_results(message, results)

    def _send_results(self, message: Message, results: Iterable[Result]) -> None:
        for result in results:
            if isinstance(result, Answer):
                self._send_answer(message, result)
            else:
                self._feed.send(result)

    def _answered(self, message: Message, work: Callable[[], None]) -> None:
        """Does the work of a node's message, or refuses it; in both cases it has been handled then."""
        self._handle(message, work, self._refuse)
        self._handled[Resource.parse(message.route.resource, Side.CLOUD).node] += 1

    def _refuse(self, message: Message, error: ApiError) -> None:
        """A lister's form where an edge would keep what it is answered as the object (KubeEdge's metamanager)."""
        if isinstance(error, ForbiddenError):
            self._send_results(message, refused(message, error))
            return
        is_query = message.route.operation == Operation.QUERY and error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        self._send_answer(message, refusal(error) if is_query else status_error(error))

    def _command(self, message: Message, kind: type[Any], run: Callable[[Cluster, Any], commands.Result]) -> None:
        def carry_out() -> None:
            result = run(self._cluster, message.content_as(kind))
            self._turns.later(lambda: self.reply(message, result))

        def refuse(_: Message, error: ApiError) -> None:
            refused = commands.Result([commands.Item(error=error.message)])
            self._turns.later(lambda: self.reply(message, refused))

        self._handle(message, carry_out, refuse)

    def _connected(self, connected: Connected) -> None:
        node = connected.client_id
        if self._ended.pop(node, None) == connected.connection:
            self._left(node)
            return
        self._database.claim(node, connected.connection, self._cluster.store.next_version())
        self._syncs.connected(node, self._database.syncs_of(node))
        self._feed.connected(node)

    def _disconnected(self, connected: Connected) -> None:
        node = connected.client_id
        if self._database.connected.get(node) == connected.connection:
            self._left(node)
        else:
            self._ended[node] = connected.connection

    def _acknowledged(self, acknowledged: list[Acknowledged]) -> None:
        for one in acknowledged:
            if one.is_delete:
                self._syncs.gone(one.node, one.uid)
            else:
                self._syncs.acknowledged(one.node, one.uid, one.version)

    def _turn_away(self, message: Message, _: ApiError) -> None:
        """A node could not be taken on: its connection ends, and it tries again."""
        node = message.route.resource.partition("/")[2]
        connection = self._database.connected.get(node)
        if connection is not None:
            self._end_connection(node, connection)

    def _undone(self, events: list[ObjectEvent], nodes: set[str]) -> None:
        for event in events:
            self._graph.undone(event)
            self._feed.undone(event)
        for node in nodes:
            if self._syncs.is_connected(node):
                self._syncs.connected(node, self._database.syncs_of(node))

    def look_for_changes(self) -> None:
        """An empty turn: it takes over what other cloudcores have changed."""
        self._turn(lambda: None)

    def _notified(self) -> None:
        self.call_soon(self.look_for_changes)

    def _turn(self, work: Callable[[], None]) -> None:
        """A turn that no message began, or a part of one that a message did."""
        is_part = self._database.in_turn
        self._turns.begin()
        work()
        if not is_part:
            self._turns.commit()

    def _take_up(self) -> None:
        self._feed.learn_pods()
        for kind in (_POD, _VOLUME):
            self._graph.learn(self._cluster.list(kind))
        if self._manifests is not None:
            self._manifests.begin_anew()
            self._manifests.look()
            self._turns.note_changes()
        for node in sorted(self._database.unclaimed & self._database.connected.keys()):
            self._database.claim(node, self._database.connected[node], self._cluster.store.next_version())
        for node in self._database.connected:
            self._syncs.connected(node, self._database.syncs_of(node))
            self._feed.connected(node)

    def _knows_all(self) -> bool:
        """Whether an object that is not there is not wanted. A new database knows nothing yet: perhaps an old one was
        lost, and what nodes run must not end for that.
        """
        has_past = self._database.outlives_process and not self._database.is_new
        return has_past or (self._manifests is not None and self._manifests.loaded)

    def _look(self) -> None:
        if self._manifests is not None:
            self._turn(self._manifests.look)

    def _changed(self, event: ObjectEvent) -> None:
        """Tells nodes, and who watches, of a change."""
        self._graph.changed(event)
        self._feed.changed(event)
        if event.key.kind == _NODE and event.change is Change.DELETED:
            self._forget(event.key.name)
        if self.hive.members(commands.SOURCE):
            changed = self.message(commands.RESOURCE, Verb.CHANGED, Changed(event.change, event.new))
            self._turns.later(partial(self.broadcast, commands.SOURCE, changed))

    def _forget(self, node: str) -> None:
        """What a node had, who deletes it forgets, and where it is connected; elsewhere it may have been made again and
        have something since.
        """
        if self._syncs.is_connected(node) or not self._turns.adopting:
            self._syncs.forget(node)
            self._database.forget_node(node)

    def _claimed_elsewhere(self, claims: Sequence[tuple[str, str]]) -> None:
        for node, cloudcore in claims:
            connection = self._database.connected.get(node)
            if connection is not None and cloudcore != self._database.cloudcore:
                self._end_connection(node, connection)

    def _end_connection(self, node: str, connection: str) -> None:
        self._left(node)
        taken = self.message(f"node/{node}", Operation.DISCONNECTED, Taken(connection), group=Group.RESOURCE)
        self._turns.later(partial(self.send, ModuleName.CLOUDHUB, taken))

    def _left(self, node: str) -> None:
        self._database.connected.pop(node, None)
        self._syncs.disconnected(node)
        self._feed.disconnected(node)

    def _send_down(self, down: Downstream) -> None:
        sent = self.message(
            down.resource, down.operation, down.content, group=Group.RESOURCE, resourceversion=down.version
        )
        self._turns.later(partial(self.send, ModuleName.CLOUDHUB, sent))

    def _send_answer(self, request: Message, answer: Answer) -> None:
        reply = request.reply(self.clock, answer.content, source=self.name)
        resource = Resource.parse(request.route.resource, Side.CLOUD)
        if answer.resource_type:
            resource = msgspec.structs.replace(resource, type=answer.resource_type)
        routed = reply.with_route(group=Group.RESOURCE, resource=str(resource))
        sent = routed.with_header(resourceversion=answer.version)
        self._feed.note_answered(resource.node, answer.content)
        self._turns.later(partial(self.send, ModuleName.CLOUDHUB, sent))
