"""The module router."""

from collections import Counter
from http import HTTPStatus
from typing import ClassVar, Final

from beehive.decoding import has_more_values
from beehive.delivery import OverflowPolicy
from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.http.forwarding import ForwardedRequest, ForwardedResponse, from_wire, to_wire
from beehive.http.http_server import HttpServer
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, Source
from beehive.resource import Side
from beehive.thread_requests import ThreadRequests
from modules.apimachinery.device_topics import is_open_to_applications, namespace_of_topic
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.limits import NODE_VALUES
from modules.apimachinery.mapper_paths import namespace_of_path
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.kind_watch import Connect, KindWatch
from modules.cloud.messages import (
    CLOUDCORES,
    CLOUDCORES_RESOURCE,
    HANDLED,
    HANDLED_RESOURCE,
    NODES,
    NODES_RESOURCE,
    Cloudcores,
    ConnectEvent,
    NodeConnection,
    origin_of,
)
from modules.cloud.refusals import Refusals
from modules.cloud.router.deliveries import Deliveries, OwnPorts
from modules.cloud.router.other_cloudcores import OtherCloudcores, PassedCalls
from modules.cloud.router.records import RuleFault, RuleRecord, RuleRoute, ServicePath
from modules.cloud.router.rest_service import RestAnswer, RestCall, RestListener, own_response
from modules.cloud.router.routing_table import RoutingTable
from modules.cloud.router.status_writer import RuleStatusWriter
from modules.cloud.router.subscriptions import NodeSubscriptions
from modules.cloud.router.topics import is_topic
from modules.cloud.router.waiting_calls import WaitingCalls
from modules.cloud.rules import RULE, RULE_ENDPOINT
from modules.cloud.storage.watch_history import ObjectChanged

REST_SECONDS: Final = 60.0
"""For a node's answer to a caller (KubeEdge)."""
CALLED: Final = "restcall"
"""Operation: a thread of the HTTP server passes on a caller's request (`RestCall`), answered with a `RestAnswer`."""
_RESOURCE: Final = "router/rest"
_MARGIN: Final = 10.0
_SECONDS: Final = 10.0
"""For answers of cloudhub and edgecontroller."""
_MOST_EARLY: Final = 1000
_MOST_EARLY_OF_NODE: Final = 100
MOST_EARLY_BYTES: Final = 4 * 1024 * 1024
"""Bounds of the messages of nodes that wait until the Rules are known: in a cluster without their kinds, for ever."""
_STOPPING: Final = "the router is stopping"
_EDGECORE: Final = "kubeedge-edgecore"
"""The header `Server` of an answer in place of an application's."""
_KIND: Final = "rules"
"""The kind of refused messages in their counter."""


class CloudRouter(Module):
    """The module that passes requests of callers on to nodes, and messages of nodes to servers, by Rules.

    It watches Rules at the API server, and makes API calls through edgecontroller; messages for nodes go through
    cloudhub. A node gets its subscriptions at each connection, because it may have missed a change. A request is
    never sent twice: its caller gets the known outcome, and may repeat it.

    Args:
        refusals: counts refused messages of nodes.
        connect: returns a transport to the API server.
        listener: for callers; None without one.
        rest_seconds: for a node's answer to a caller.
        others: other cloudcores, for calls of their nodes.
        own_ports: returns the TCP ports of this cloudcore.
    """

    name: ClassVar[str] = ModuleName.ROUTER
    group: ClassVar[str] = Group.ROUTER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self,
        refusals: Refusals,
        connect: Connect,
        listener: RestListener | None = None,
        rest_seconds: float = REST_SECONDS,
        others: OtherCloudcores | None = None,
        own_ports: OwnPorts = tuple,
    ) -> None:
        super().__init__()
        self._refusals = refusals
        self._listener = listener
        self._rest_seconds = rest_seconds
        self._table = RoutingTable()
        self._watch = KindWatch(
            self, (RULE_ENDPOINT, RULE), self._handle_change, self._begin, connect, "deploy/rules.yaml"
        )
        self._status = RuleStatusWriter(self, self._rule)
        self._subscriptions = NodeSubscriptions(self, self._table)
        self._deliveries = Deliveries(self, self._table, self._status, self._subscriptions, own_ports)
        self._waiting = WaitingCalls(self, rest_seconds)
        self._others = others
        self._passed = PassedCalls(self, others)
        self._requests = ThreadRequests(self)
        self._early: list[Message] = []
        self._early_bytes = 0
        self._early_of_node = Counter[str]()
        self._is_loaded = False
        self._server: HttpServer | None = None

    def on_start(self) -> None:
        """Begin to listen, and to watch Rules.

        Raises:
            ServerError: the address cannot be listened on.
        """
        if self._listener is not None:
            self._server = self._listener.start(self._ask, self._call_api, self.clock)
            if self._others is not None:
                self._others.announce(self._listener.port)
        self._watch.start()

    def on_end(self) -> None:
        """Close the port, when all callers have their answers, and the watch."""
        self._watch.stop()
        server, self._server = self._server, None
        self._waiting.end_all(_STOPPING)
        self._requests.end_all(_STOPPING)
        if server is not None:
            server.stop()

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_connected(self, message: Message) -> None:
        """Tell a node its subscriptions."""
        event = message.content_as(ConnectEvent)
        self._subscriptions.connect(event.client_id, event.connection)

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_disconnected(self, message: Message) -> None:
        """End the calls of a node."""
        self._subscriptions.disconnect(message)
        self._waiting.node_gone(message.route.resource.removeprefix("node/"))

    @handles(None, CALLED, source=ModuleName.ROUTER)
    def on_call(self, message: Message) -> None:
        """Serve a caller."""
        call = message.content_as(RestCall)
        route = self._table.for_caller(call.path)
        if not self._is_loaded:
            self.reply(
                message, own_response(HTTPStatus.SERVICE_UNAVAILABLE, "the rules are not known yet: try again soon")
            )
        elif route is None:
            why = f"no rule of the namespace {call.path.namespace} has this path"
            self.reply(message, own_response(HTTPStatus.NOT_FOUND, why))
        elif call.path.node not in self._subscriptions.connected:
            self._answer_elsewhere(message, call)
        elif route.service is not None:
            self._call_service(message, call, route, route.service)
        else:
            self.reply(message, self._publish(call, route))

    @handles(None, Operation.UPLOAD)
    def handle(self, message: Message) -> None:
        """Handle a message of a node's eventbus or servicebus."""
        node, resource = origin_of(message)
        self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, {node: 1}))
        if message.parent_id:
            self._handle_answer(message, node)
        elif self._is_loaded:
            self._deliveries.handle(message, node, resource)
        else:
            self._keep(message, node, resource)

    def _keep(self, message: Message, node: str, resource: str) -> None:
        """Keep a message until the Rules are known, if there is room."""
        size = len(message.content_bytes())
        has_room = len(self._early) < _MOST_EARLY and self._early_bytes + size <= MOST_EARLY_BYTES
        if has_room and self._early_of_node[node] < _MOST_EARLY_OF_NODE:
            self._early.append(message)
            self._early_bytes += size
            self._early_of_node[node] += 1
        else:
            self._refusals.record(node, "too many messages wait", _KIND, resource)

    def _ask(self, call: RestCall) -> RestAnswer:
        """Return the answer to a caller, on the thread of its connection."""
        request = self.message(_RESOURCE, CALLED, call)
        try:
            answer = self._requests.ask(ModuleName.ROUTER, request, self._rest_seconds + _MARGIN)
        except BeehiveError as error:
            return own_response(HTTPStatus.SERVICE_UNAVAILABLE, f"the router has not answered: {error}")
        return answer.content_as(RestAnswer)

    def _call_api(self, call: ApiCall) -> ApiResult:
        """Return the API server's answer, on the thread of a connection. Raises ApiStatusError without one."""
        request = self.message(api_messages.RESOURCE, Verb.CALL, call)
        try:
            answer = self._requests.ask(ModuleName.EDGECONTROLLER, request, _SECONDS)
        except BeehiveError as error:
            raise ApiStatusError(HTTPStatus.SERVICE_UNAVAILABLE, f"the API server has not answered: {error}") from error
        return answer.content_as(ApiResult)

    def _rule(self, key: ObjectKey) -> tuple[RuleRecord | None, RuleFault | None]:
        return self._table.rule(key), self._table.fault(key)

    def _begin(self) -> None:
        """Begin to serve the connected nodes, and deliver their earlier messages, once all Rules are known."""
        self._is_loaded = True
        self._subscriptions.begin()
        early, self._early, self._early_bytes = self._early, [], 0
        self._early_of_node.clear()
        for message in early:
            self._deliveries.handle(message, *origin_of(message))

        def seed(answer: Message | BeehiveError) -> None:
            for one in answer.content_as(list[NodeConnection]) if isinstance(answer, Message) else ():
                if one.node not in self._subscriptions.connected:
                    self._subscriptions.connect(one.node, one.connection)

        self.request(ModuleName.CLOUDHUB, self.message(NODES_RESOURCE, NODES), _SECONDS, seed)

    def _handle_change(self, changed: ObjectChanged) -> None:
        for change in self._table.put(changed):
            self._status.refresh(change.key)
            self._subscriptions.follow(change)

    def _answer_elsewhere(self, message: Message, call: RestCall) -> None:
        begun = self.clock.monotonic()

        def answered(answer: Message | BeehiveError) -> None:
            found = answer.content_as(Cloudcores).elsewhere() if isinstance(answer, Message) else {}
            left = self._rest_seconds - (self.clock.monotonic() - begun)
            self._passed.serve(call, found.get(call.path.node, ""), left, lambda given: self.reply(message, given))

        asked = self.message(CLOUDCORES_RESOURCE, CLOUDCORES, call.path.node)
        self.request(ModuleName.EDGECONTROLLER, asked, _SECONDS, answered)

    def _publish(self, call: RestCall, route: RuleRoute) -> RestAnswer:
        """Send a message to the node's broker, and return the caller's answer; the answer does not wait for the
        broker.
        """
        parts = len(route.pattern.parts) if route.pattern is not None else 0
        topic = _joined(route.topic, call.path.rest(parts))
        try:
            content = call.body.decode()
        except UnicodeDecodeError:
            why = "a message is a text: send binary data as base64"
            return own_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
        if not is_topic(topic) or not is_open_to_applications(topic):
            why = "the path with its query makes no topic of MQTT under which others than edgecore may publish"
            self._status.failed(route.rule.key, f"{topic[:200]}: {why}")
            return own_response(HTTPStatus.BAD_REQUEST, why)
        if (foreign := self._foreign(route, namespace_of_topic(topic))) is not None:
            return foreign
        fields = {"source": Source.ROUTER_EVENTBUS, "group": Group.USER}
        resource = f"node/{call.path.node}/{topic}"
        self.send(ModuleName.CLOUDHUB, self.message(resource, Operation.PUBLISH, content, **fields))
        self._status.succeeded(route.rule.key)
        return RestAnswer(HTTPStatus.OK, b"message delivered")

    def _call_service(self, message: Message, call: RestCall, route: RuleRoute, service: ServicePath) -> None:
        """Send a request to the node's servicebus; the caller gets the application's response."""
        key, node = route.rule.key, call.path.node
        if not self._waiting.has_room(key):
            why = f"many callers of rule {key.name}, or of its namespace, wait already: try again soon"
            self._status.failed(key, why)
            self.reply(message, own_response(HTTPStatus.SERVICE_UNAVAILABLE, why))
            return

        def answered(answer: RestAnswer, failure: str) -> None:
            if failure:
                self._status.failed(key, failure)
            else:
                self._status.succeeded(key)
            self.reply(message, answer)

        rest = call.path.rest(len(route.pattern.parts) if route.pattern is not None else 0)
        target = (_joined(service.path, rest) if rest.startswith("/") else service.path + rest).replace(":", "%3A")
        if (foreign := self._foreign(route, namespace_of_path(target))) is not None:
            self.reply(message, foreign)
            return
        content = ForwardedRequest(to_wire(call.headers), call.body, call.method)
        fields = {"source": Source.ROUTER_SERVICEBUS, "group": Group.USER}
        asked = self.message(f"node/{node}/{service.port}:{target}", call.method, content, **fields)
        self._waiting.add(asked.id, node, key, answered, call.seconds)
        self.send(ModuleName.CLOUDHUB, asked)

    def _foreign(self, route: RuleRoute, namespace: str) -> RestAnswer | None:
        """Return the refusal of a call about a Device of another namespace, on which the Rule's author may have no
        right; None for any other call.
        """
        if namespace in ("", route.rule.key.namespace):
            return None
        why = f"the path names a Device of the namespace {namespace}: only a Rule of that namespace reaches it"
        self._status.failed(route.rule.key, why)
        return own_response(HTTPStatus.FORBIDDEN, why)

    def _handle_answer(self, message: Message, node: str) -> None:
        try:
            too_many = has_more_values(bytes(message.content_raw()), NODE_VALUES)
            said = ForwardedResponse() if too_many else message.content_as(ForwardedResponse)
            answer = RestAnswer(said.status_code, said.body or b"", from_wire(said.header))
        except BeehiveError:
            answer = RestAnswer(0, b"")
        failure = ""
        if not HTTPStatus.OK <= answer.status < 600:
            failure = f"node {node} has answered with something that is no response"
            answer = own_response(HTTPStatus.BAD_GATEWAY, failure)
        elif answer.status >= HTTPStatus.BAD_REQUEST and _EDGECORE in dict(answer.headers).get("Server", ""):
            failure = f"node {node}: {answer.body[:200].decode(errors='replace').strip()}"
        if not self._waiting.answer(message.parent_id, node, answer, failure):
            self._refusals.record(node, "answer to nothing that this node was asked", _KIND, message.parent_id)


def _joined(path: str, rest: str) -> str:
    """Return a path or topic with the rest of a caller's path, which may be a query alone, at one slash (KubeEdge)."""
    return f"{path.removesuffix('/')}/{rest.removeprefix('/')}" if rest else path
