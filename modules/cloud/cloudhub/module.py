"""The module cloudhub."""

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import msgspec

from beehive.codec import encode
from beehive.errors import ContentError
from beehive.handlers import HandlerTable, handles
from beehive.message import Message, Route
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Side
from modules.cloud.cloudhub.acknowledgement import needs_acknowledgement
from modules.cloud.cloudhub.connection_checks import ConnectionChecks
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.cloudhub.dispatcher import Dispatcher
from modules.cloud.cloudhub.draining import Draining
from modules.cloud.cloudhub.messages_without_room import MessagesWithoutRoom, Passing
from modules.cloud.cloudhub.node_connection import Connection
from modules.cloud.cloudhub.node_session import NodeSession, ObjectVersion, OfferResult, object_version_of
from modules.cloud.cloudhub.replaced_connections import TWO_MACHINES, ReplacedConnections
from modules.cloud.cloudhub.routing import (
    CA_RESOURCE,
    GROUPS,
    Destination,
    destination_of,
    is_deletion_of_node,
    node_of,
    on_node,
    resource_type_of,
    wants_answer,
)
from modules.cloud.cloudhub.upstream_window import MAX_BYTES, MAX_MESSAGES, UpstreamWindow
from modules.cloud.messages import (
    ACKNOWLEDGED,
    ACKNOWLEDGED_RESOURCE,
    DRAIN,
    HANDLED,
    NODES,
    Acknowledged,
    ConnectEvent,
    Drain,
    SessionTakenOver,
)
from modules.cloud.object_writes import JOURNAL
from modules.cloud.refusals import Refusals
from modules.cloud.websocket.link import (
    FrameReceived,
    Link,
    LinkClosed,
    LinkEvent,
    LinkOpened,
    close_now,
    end,
    overloaded,
    replaced,
)

_log = logging.getLogger(__name__)
_TICK = 1.0
"""Seconds between two checks of keepalives and unacknowledged messages."""
_LONGEST_ECHO = 1024
"""Characters of a refused message's resource that the error repeats."""
_LOGGED = 500
"""Bytes of a node's error in the log."""
_DRAIN_PERIOD = 0.05
_BUSY = 256
"""Depth of the inbox above which no message is sent again."""
_NOT_SERVED = "cloudhub: no controller of this cloud takes such messages"
_NOT_CONNECTED = "the node is not connected"
_TOO_MANY_WAIT = "too many of its messages wait for the controllers"
_ACKNOWLEDGEMENTS = 512
"""Acknowledgements that are reported at once, however soon."""


class CloudHubSettings(msgspec.Struct, frozen=True):
    """Settings of cloudhub."""

    keepalive_interval: float = 30.0
    """Seconds without a keepalive after which a node is disconnected. Other messages do not count, as in KubeEdge."""
    ack_resend_interval: float = 5.0
    """Seconds after which an unacknowledged message is sent again."""
    ack_delay: float = 0.5
    """Seconds to collect acknowledgements, so that many nodes share a transaction. What a crash loses is sent again."""
    ca_pem: str = ""
    """Certificate of the Kubernetes CA, PEM, which nodes query."""
    messages_under_way: int = MAX_MESSAGES
    """Maximum of unhandled messages of one node in the controllers."""
    bytes_under_way: int = MAX_BYTES
    """Maximum of their bytes."""


class Transport(Protocol):
    """A maker of links: `WebsocketServer`, or a stub in a simulation."""

    def start(self) -> None:
        """Start to accept connections."""

    def stop(self) -> None:
        """Close all links."""


MakeTransport = Callable[[Dispatcher], Transport]


class CloudHub(Module):
    """The module that passes messages between the nodes' connections and the cloud's modules (KubeEdge's cloudhub).

    It keeps no state beyond a connection. edgecontroller stores the acknowledgements that cloudhub reports, and sends
    undelivered objects again over the node's next connection, perhaps to another cloudcore.

    Args:
        settings: intervals and limits.
        make_transport: makes the transport; None when a test makes the links.
        sessions: the session of each connected node; the caller may read it.
        refusals: counts refused messages; made by the process, so it outlives a restart of this module.
        counters: counts other messages, likewise.
    """

    name: ClassVar[str] = ModuleName.CLOUDHUB
    group: ClassVar[str] = Group.CLOUDHUB
    side: ClassVar[Side] = Side.CLOUD
    inbox_capacity: ClassVar[int] = 1_000_000
    """So large that edgecontroller never waits for this inbox: each would wait for the other. The dispatcher bounds
    the messages of nodes."""

    def __init__(
        self,
        settings: CloudHubSettings,
        make_transport: MakeTransport | None,
        sessions: dict[str, NodeSession],
        refusals: Refusals | None = None,
        counters: CloudHubCounters | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._make_transport = make_transport
        self._transport: Transport | None = None
        self._sessions = sessions
        self._connections: dict[str, Connection] = {}
        self._replaced = ReplacedConnections()
        self._acknowledgements: list[Acknowledged] = []
        """Acknowledgements not yet reported to edgecontroller."""
        self._counters = CloudHubCounters() if counters is None else counters
        self._refusals = Refusals(self.clock) if refusals is None else refusals
        self._upstream: UpstreamWindow[Passing] = UpstreamWindow(settings.messages_under_way, settings.bytes_under_way)
        self._without_room = MessagesWithoutRoom(self)
        self._handlers: dict[str, list[HandlerTable]] = {}
        """Of the controllers, by group."""
        interval = settings.keepalive_interval
        self._checks = ConnectionChecks(self, self._connections, interval)

    def on_start(self) -> None:
        """Start to accept connections; a module that failed has closed its connections."""
        self._sessions.clear()
        self.every(_TICK, self._tick)
        if self._make_transport is not None:
            self._transport = self._make_transport(Dispatcher(self.actor_ref, self.hive))
            self._transport.start()

    def on_stop(self) -> None:
        """Report the last acknowledgements to edgecontroller, which stops later."""
        super().on_stop()
        self._report_acknowledged()

    def on_end(self) -> None:
        """Close all connections; nodes connect again to a restarted module."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.stop()

    def on_receive(self, message: Any) -> None:
        """Handle link events."""
        if isinstance(message, Dispatcher):
            for event in message.next_events():
                self._handle_event(event)
        else:
            self._handle_event(message)

    def _handle_event(self, event: LinkEvent) -> None:
        if isinstance(event, FrameReceived):
            node, link, size = event.node, event.link, event.size
            connection = self._connections.get(node)
            if connection is None or connection.link is not link:
                return
            if event.error:
                self._answer_error(node, event.message, f"cloudhub: {event.error}")
            if event.error or not self._received(node, event.message, size):
                link.handled(size)
        elif isinstance(event, LinkOpened):
            self._opened(event)
        elif isinstance(event, LinkClosed):
            self._closed(event.node, event.link)

    @handles()
    def to_node(self, message: Message) -> None:
        """Send a controller's message to a node; the resource has the cloud's form."""
        node = node_of(message)
        if not node:
            self._drop("no node in the resource", message)
        elif not needs_acknowledgement(message):
            if message.route.operation == Operation.DELETE and is_deletion_of_node(message):
                self._disconnect(node, "the node was deleted")
            else:
                self._write(node, message)
        elif (session := self._sessions.get(node)) is None:
            self._drop(_NOT_CONNECTED, message)
        else:
            offer = session.offer(message)
            if offer is OfferResult.QUEUED:
                self._send_due(node, session)
            elif offer is OfferResult.ACKNOWLEDGED:
                self._acknowledged(node, object_version_of(message))
            elif offer in (OfferResult.NO_VERSION, OfferResult.NO_ROOM):
                self._drop(offer.value, message)
                if offer is OfferResult.NO_ROOM:
                    self._refuse_answer(node, message)
        answered = message.header.parent_msg_id
        if answered and message.route.source == ModuleName.EDGECONTROLLER:  # which reports the others as handled
            for passing in self._upstream.answered(node, answered, self.clock.monotonic()):
                self._without_room.offer(passing)

    @handles(None, Operation.DISCONNECTED, source=ModuleName.EDGECONTROLLER)
    def to_elsewhere(self, message: Message) -> None:
        """Disconnect a node that has connected to another cloudcore since: the newest connection wins."""
        node = message.route.resource.partition("/")[2]
        connection = self._connections.get(node)
        if connection is not None and connection.id == message.content_as(SessionTakenOver).connection:
            self._disconnect(node, "the node has connected to another cloudcore", replaced)

    @handles(None, HANDLED)
    def handled(self, message: Message) -> None:
        """Count messages of nodes as handled, and pass on waiting ones."""
        now = self.clock.monotonic()
        for node, count in message.content_as(dict[str, int]).items():
            for passing in self._upstream.handled(node, count, now):
                self._without_room.offer(passing)
        self._without_room.resume()

    @handles(None, DRAIN)
    def drain(self, message: Message) -> None:
        """End all connections, spread over the time given, and reply when that is done."""
        self.announce_not_ready("cloudcore is stopping")
        seconds = message.content_as(Drain).seconds
        draining = Draining(self._connections, self.clock.monotonic(), seconds)

        def close_due() -> None:
            for node in draining.due(list(self._connections), self.clock.monotonic(), self._upstream.is_idle):
                self._disconnect(node, "cloudcore is stopping", end)
            if self._connections:
                self.after(_DRAIN_PERIOD, close_due)
            else:
                self.reply(message, seconds)

        close_due()

    @handles(None, NODES)
    def report_nodes(self, message: Message) -> None:
        """Reply with the state of all connections."""
        now = self.clock.monotonic()
        connections = sorted(self._connections.items())
        self.reply(message, [one.report(node, self._sessions[node], now) for node, one in connections])

    def _opened(self, opened: LinkOpened) -> None:
        node = opened.node
        if node in self._connections and self._replaced.record(node, self.clock.monotonic()):
            _log.warning(TWO_MACHINES, node)
        self._disconnect(node, "the node has connected again", replaced)
        now = self.clock.monotonic()
        connection = Connection(opened.link, now, self.clock.new_id(), now, opened.address, opened.certificate_ends)
        if self._replaced.are_two(node, now):
            connection.record_error(TWO_MACHINES % node, now)
        self._connections[node] = connection
        self._sessions[node] = NodeSession(self._settings.ack_resend_interval, resent=self._counters.count_resent)
        _log.info("node %s connected", node)
        self._send_connect_event(node, connection, Operation.CONNECTED)

    def _closed(self, node: str, link: Link) -> None:
        connection = self._connections.get(node)
        if connection is not None and connection.link is link:
            self._disconnect(node, "the connection was closed")

    def _disconnect(self, node: str, reason: str, close: Callable[[Link], None] = close_now) -> None:
        connection = self._connections.pop(node, None)
        if connection is None:
            return
        _log.info("node %s disconnected: %s", node, reason)
        close(connection.link)
        del self._sessions[node]
        self._report_acknowledged()
        self._send_connect_event(node, connection, Operation.DISCONNECTED, reason)

    def _received(self, node: str, message: Message, size: int) -> bool:
        """Handle a node's message, and return whether a controller handles it later."""
        match destination_of(message):
            case Destination.KEEPALIVE:
                sent, clock = message.header.timestamp, self.clock
                self._connections[node].record_keepalive(sent, clock.monotonic(), clock.now())
            case Destination.WAITER:
                self._resolve(node, message)
            case Destination.ACKNOWLEDGE:
                self._acknowledged(node, self._sessions[node].acknowledge(message.header.parent_msg_id))
            case Destination.LOG:
                text = bytes(message.content_raw())[:_LOGGED].decode(errors="replace")
                _log.warning("node %s reports an error for %s: %s", node, message.route.resource, text)
                self._connections[node].record_error(f"{message.route.resource}: {text}", self.clock.monotonic())
            case Destination.CA:
                self._answer_ca(node, message)
            case Destination.DISCARD:
                self._drop("an echo of the cloud's own", message)
            case Destination.NOTHING:
                pass
            case Destination.REFUSED:
                self._refuse(node, message)
            case destination:
                return self._to_controller(destination, node, on_node(message, node), size)
        return False

    def _to_controller(self, destination: Destination, node: str, message: Message, size: int) -> bool:
        group = GROUPS.get(destination)
        if group is Group.EDGECONTROLLER or (group is not None and self.hive.members(group)):
            if not self._has_handler(group, message):
                self.broadcast(group, message)  # a dead letter: no controller will report it as handled
                self._answer_error(node, message, _NOT_SERVED)
                return False
            if self._upstream.is_full(node):
                self._disconnect(node, _TOO_MANY_WAIT, overloaded)
                return True
            passing = Passing(group, message, self._connections[node].link, size)
            for each in self._upstream.offer(node, passing, size, self.clock.monotonic(), message.header.msg_id):
                self._without_room.offer(each)
            return True
        self._drop(f"nobody here for: {destination}", message)
        self._answer_error(node, message, _NOT_SERVED)
        return False

    def _has_handler(self, group: Group, message: Message) -> bool:
        """Return whether a module of the group may have a handler for the message; an absent module may."""
        tables = self._handlers.get(group)
        if tables is None:
            members = self.hive.members(group)
            tables = self._handlers[group] = [self.hive.slot(name).make.handlers for name in members]
        for table in tables:
            if table.find(message) is not None:
                return True
        return not tables

    def _resolve(self, node: str, answer: Message) -> None:
        """Pass a response to the waiting request, if that was sent to this node; otherwise refuses it."""
        if self.hive.pending_requests.resource(answer.parent_id).startswith(f"node/{node}/"):
            self.respond(answer)
        else:
            self._refusals.record(node, "answer to nothing that this node was asked", "volume", answer.route.resource)

    def _refuse(self, node: str, message: Message) -> None:
        route = message.route
        about = f"{route.operation[:100]} {route.resource[:100]}"
        self._refusals.record(node, "not a message of an edge", resource_type_of(message), about)
        self._connections[node].record_error(f"not a message of an edge: {about}", self.clock.monotonic())
        text = "cloudhub: no node may send this: group, resource type or operation is none of an edge's"
        self._answer_error(node, message, text)

    def _answer_error(self, node: str, message: Message, text: str) -> None:
        """Answer a message of a node with an error, if the node may wait for an answer."""
        if wants_answer(message):
            error = message.error(self.clock, text, source=self.name, group=Group.RESOURCE)
            self._write(node, error.with_route(resource=f"node/{node}/{message.route.resource[:_LONGEST_ECHO]}"))

    def _refuse_answer(self, node: str, answer: Message) -> None:
        """Answer a request of a node with an error in the place of an answer that is dropped. It needs no place among
        what the node acknowledges; a node that does not read is disconnected by its link.
        """
        error = self.message(
            answer.route.resource, Operation.ERROR, f"cloudhub: {OfferResult.NO_ROOM.value}; ask again later",
            group=Group.RESOURCE, parent_id=answer.parent_id,
        )  # fmt: skip
        self._write(node, error)

    def _answer_ca(self, node: str, message: Message) -> None:
        answer = message.reply(self.clock, self._settings.ca_pem, source=self.name)
        resource = f"node/{node}/{CA_RESOURCE}"
        self._write(node, answer.with_route(group=Group.RESOURCE, resource=resource))

    def _acknowledged(self, node: str, obj: ObjectVersion | None) -> None:
        if obj is None:
            self._counters.dropped["acknowledgement of nothing"] += 1
            return
        if not self._acknowledgements:
            self.after(self._settings.ack_delay, self._report_acknowledged)
        self._acknowledgements.append(Acknowledged(node, obj.key, obj.version, obj.is_delete))
        if len(self._acknowledgements) >= _ACKNOWLEDGEMENTS:
            self._report_acknowledged()
        session = self._sessions[node]
        if session.waiting:
            self._send_due(node, session)

    def _report_acknowledged(self) -> None:
        if self._acknowledgements:
            acknowledged, self._acknowledgements = self._acknowledgements, []
            event = self.message(ACKNOWLEDGED_RESOURCE, ACKNOWLEDGED, acknowledged, group=Group.RESOURCE)
            self.broadcast(Group.EDGECONTROLLER, event)

    def send_overdue(self, node: str) -> None:
        """Send a node again what it has not acknowledged (`CheckedHub`). Not while earlier messages still wait for the
        socket: a slow node would get the same objects repeatedly, and its queue would only grow.
        """
        link, session = self._connections[node].link, self._sessions[node]
        if not session.under_way:  # then nothing waits for the window, either
            return
        is_busy = self.slot.inbox.depth() > _BUSY  # acknowledgements probably wait in the inbox
        if not (link.is_behind or link.is_held_back or is_busy):
            for message in session.overdue(self.clock.monotonic()):
                self._write(node, message)
            self._send_due(node, session)

    def _send_due(self, node: str, session: NodeSession) -> None:
        for message in session.due(self.clock.monotonic()):
            self._write(node, message)

    def _write(self, node: str, message: Message) -> None:
        connection = self._connections.get(node)
        if connection is None:
            self._drop(_NOT_CONNECTED, message)
            return
        header, route = message.header, message.route
        resource = route.resource.removeprefix(f"node/{node}/")
        trimmed = Route(route.source, route.destination, route.group, route.operation, resource)
        if header.sync:
            header = msgspec.structs.replace(header, sync=False)
        try:
            connection.link.send(encode(Message(header, trimmed, message.content)))
        except ContentError as error:
            _log.error("node %s: a message could not be encoded: %s", node, error)
        except OSError as error:
            self._disconnect(node, str(error))

    def _tick(self) -> None:
        now = self.clock.monotonic()
        for _, passing in self._upstream.expire(now):
            self._without_room.offer(passing)
        self._checks.begin()

    def end_silent(self, node: str) -> None:
        self._disconnect(node, f"no keepalive for {self._settings.keepalive_interval:g} s")

    def _send_connect_event(self, node: str, connection: Connection, operation: Operation, reason: str = "") -> None:
        now = self.clock.now()
        content = ConnectEvent(
            operation.value, int(now), node, connection.id,
            reason, connection.address, connection.certificate_ends, now,
        )  # fmt: skip
        event = self.message(f"node/{node}", operation, content, group=Group.RESOURCE)
        for group in (Group.EDGECONTROLLER, Group.DEVICECONTROLLER, Group.ROUTER, Group.TASKMANAGER, JOURNAL):
            if group == Group.EDGECONTROLLER or self.hive.members(group):
                self.broadcast(group, event)

    def _drop(self, reason: str, message: Message) -> None:
        self._counters.dropped[reason] += 1
        _log.debug("dropped: %s: %s %s", reason, message.route.operation, message.route.resource)
