"""The module eventbus: messages of applications on MQTT brokers, and to them."""

import logging
from typing import Final

import msgspec

from beehive import Group, Message, Module, ModuleName, Operation, ResourceType, Source, Timer, handles
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from edged.events.model import EventType
from edged.events.node_events import NodeEventRecorder
from edged.events.reasons import Reason
from metamanager.client import AsyncMetaClient, CallError, NotFoundError
from modules.apimachinery.device_topics import is_filter, is_open_to_applications, is_topic
from modules.edge.eventbus import routing
from modules.edge.eventbus.connection import BrokerConnection, SessionLink
from modules.edge.eventbus.counters import EventBusCounters, Receiver, RefusalReason
from modules.edge.eventbus.internal_broker import InternalBroker
from modules.edge.eventbus.mosquitto_process import BrokerSupervisor
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.refusals import RefusalLog, refusal_of
from modules.edge.eventbus.session import BrokerSettings

_log = logging.getLogger(__name__)

PATIENCE: Final = 60.0
"""Seconds for devicetwin or edgehub to store a message."""

MOST_TOPICS: Final = 1000
"""Subscriptions of the cloud."""

_ROW: Final = ("", "topics")
_AGAIN_AFTER: Final = 5.0
_LOOK_SECONDS: Final = 5.0

DOWN_SECONDS: Final = 15.0
"""Seconds without a broker after which an event reports the loss: a restart of the broker takes less."""


class EventBusSettings(msgspec.Struct, frozen=True):
    """Settings of eventbus."""

    node: str
    broker: BrokerSettings | None
    """The external broker; None without one."""
    internal: InternalBroker | None = None
    """The broker that eventbus runs itself; None without one."""


class EventBus(Module):
    """The module that connects the bus with MQTT brokers (KubeEdge's eventbus): one outside, one of its own, or both.

    A message of an application goes to devicetwin or, through edgehub's outbox, to the cloud; the broker gets its
    acknowledgement when it is stored there. If it cannot be stored, the connection is given up, and the broker sends
    all unacknowledged messages again, in order. Messages to applications wait in a bounded queue for each broker, so
    that a slow broker delays nothing else.

    Args:
        settings: of eventbus.
        counters: of eventbus; outlive a restart of the module.
    """

    name = ModuleName.EVENTBUS
    group = Group.BUS

    def __init__(self, settings: EventBusSettings, counters: EventBusCounters | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._counters = counters or EventBusCounters()
        self._topics: list[str] = []
        self._are_read = False
        self._earlier: list[tuple[str, bool]] = []
        """The cloud's subscriptions (True) and their ends before the stored ones were read."""
        self._meta = AsyncMetaClient(self)
        self._refusals = RefusalLog()
        self._connections: list[BrokerConnection] = []
        self._supervisor: BrokerSupervisor | None = None
        self._keeping: Timer | None = None
        """Runs after the subscriptions could not be stored."""
        self._is_dropping = False
        self._events = NodeEventRecorder(self, settings.node, self._meta)
        self._told_down: set[str] = set()
        """The brokers that an event has reported as away."""

    def on_start(self) -> None:
        """Read the cloud's subscriptions, then dial."""
        self.every(_LOOK_SECONDS, self._check_brokers, jitter=0.1)
        if self._settings.internal is not None:
            inside = self._connect("internal", _inside(self._settings.internal))
            self._supervisor = BrokerSupervisor(self, self._settings.internal, self._counters, inside)
        if self._settings.broker is not None:
            self._connect("external", self._settings.broker)
        self._read_topics()

    def on_stop(self) -> None:
        """Take no more events; the brokers keep later messages for the next sessions."""
        self._events.close()
        super().on_stop()

    def on_end(self) -> None:
        """Close the sessions; a restarted module opens new ones."""
        for each in self._connections:
            each.close()
        if self._supervisor is not None:
            self._supervisor.stop()

    @handles(None, Operation.PUBLISH)
    def publish(self, message: Message) -> None:
        """Publish the content under the resource as topic; answer a sender that waits when the broker has it."""
        request, topic = message if message.header.sync else None, message.route.resource
        if message.route.source == Source.ROUTER_EVENTBUS and not is_open_to_applications(topic):
            why = "only edgecore publishes there: an application would take it for a desired value or an answer"
            self._refuse(topic, why, request)
            return
        self._publish(topic, _payload(message), request)

    @handles(None, Operation.MESSAGE)
    def publish_inner(self, message: Message) -> None:
        """Publish `{"message": {"topic": …}}`: the inner object under its topic."""
        try:
            inner = message.content_as(dict[str, dict[str, object]]).get("message", {})
        except BeehiveError as error:
            _log.warning("%s", error)
            return
        topic = inner.get("topic")
        self._publish(topic if isinstance(topic, str) else "", msgspec.json.encode(inner))

    @handles(None, Operation.SUBSCRIBE)
    def subscribe(self, message: Message) -> None:
        """Subscribe to the resource as topic, now and after each restart."""
        self._change(message.route.resource, wanted=True)

    @handles(None, Operation.UNSUBSCRIBE)
    def unsubscribe(self, message: Message) -> None:
        """End the subscription to the resource as topic; a broker may have one that the store has lost."""
        self._change(message.route.resource, wanted=False)

    @handles(ResourceType.CONNECTION, Operation.CONNECT, source=Source.EDGEHUB)
    def connection_changed(self, _message: Message) -> None:
        """Ignore edgehub's connection event: the outbox takes uploads with and without a link."""

    @handles()
    def ignore(self, message: Message) -> None:
        """Log any other message, as KubeEdge does."""
        _log.warning("not for MQTT: %s %s", message.route.operation, message.route.resource[:200])

    def received(self, link: SessionLink, messages: list[Received]) -> None:
        """Pass messages of applications on, and acknowledge them when they are stored."""
        refused, uploads = [], []
        for message in messages:
            if not self._is_accepted(message):
                refused.append(message)
            elif routing.is_for_devices(message.topic):
                self._send_to_devicetwin(link, message)
            else:
                uploads.append(message)
        if refused:
            link.session.answered(refused)
        if uploads:
            self._upload(link, uploads)

    def _is_accepted(self, message: Received) -> bool:
        refused = refusal_of(message)
        if refused is None:
            return True
        why, text = refused
        self._counters.refused[why] += 1
        if why is not RefusalReason.RETAINED:
            self._refusals.record(why, message.topic, text, self.clock.monotonic())
        return False

    def _send_to_devicetwin(self, link: SessionLink, message: Received) -> None:
        resource, text = routing.twin_resource(message.topic), message.payload.decode()
        said = self.message(resource, Operation.RESPONSE, text, source=Source.BUS, group=Group.USER)

        def answered(result: Message | BeehiveError) -> None:
            self._stored(link, [message], int(_is_well(result)), result)

        self.request(ModuleName.DEVICETWIN, said, PATIENCE, answered)

    def _upload(self, link: SessionLink, messages: list[Received]) -> None:
        """Let edgehub store all messages that have come together; it answers how many of them it has stored."""
        texts = [text for message in messages for text in (message.topic, message.payload.decode())]
        said = self.message(link.id, Operation.UPLOAD, texts, source=Source.BUS, group=Group.USER)

        def answered(result: Message | BeehiveError) -> None:
            kept = result.content_as(int) if isinstance(result, Message) and _is_well(result) else 0
            self._stored(link, messages, kept, result)

        self.request(ModuleName.EDGEHUB, said, PATIENCE, answered)

    def _stored(self, link: SessionLink, messages: list[Received], number: int, result: Message | BeehiveError) -> None:
        """Acknowledge the first messages; if more were to be stored, let the broker send those again."""
        if not link.is_current or link.is_given_up:
            return
        if number:
            self._counters.received[Receiver.of(messages[0].topic)] += number
            link.stored(messages[:number])
        if left := messages[number:]:
            self._counters.failed += len(left)
            _log.warning("%d messages, the first from %s, are not stored, and the broker is asked to send them again: "
                         "%s", len(left), left[0].topic, _error_of(result))  # fmt: skip
            link.give_up()

    def _connect(self, name: str, settings: BrokerSettings) -> BrokerConnection:
        connection = BrokerConnection(self, name, settings, self._wanted, self.received, self._counters)
        connection.start()
        self._counters.publications[name] = connection.publications
        self._connections.append(connection)
        return connection

    def _wanted(self) -> list[str]:
        return [*routing.SUBSCRIPTIONS, *self._topics]

    def _check_brokers(self) -> None:
        """Record brokers that are away, and that are back."""
        now = self.clock.monotonic()
        for each in self._connections:
            is_down, was_down = each.down_for(now) >= DOWN_SECONDS, each.name in self._told_down
            if is_down and not was_down:
                self._told_down.add(each.name)
                why = f"not connected to the {each.name} MQTT broker: {each.problem or 'it does not answer'}"
                self._events.record(EventType.WARNING, Reason.MQTT_BROKER_NOT_READY, why)
            elif was_down and not each.down_for(now):
                self._told_down.discard(each.name)
                why = f"connected to the {each.name} MQTT broker"
                self._events.record(EventType.NORMAL, Reason.MQTT_BROKER_READY, why)

    def _read_topics(self) -> None:
        def read(result: bytes | CallError) -> None:
            if isinstance(result, CallError) and not isinstance(result, NotFoundError):
                _log.error("the subscriptions are not read, and are asked for again: %s", result)
                self.after(_AGAIN_AFTER, self._read_topics)
                return
            self._topics = [] if isinstance(result, CallError) else _read(result)
            self._are_read = True
            earlier, self._earlier = self._earlier, []
            for topic, wanted in earlier:
                self._change(topic, wanted=wanted)
            if self._supervisor is not None:
                self._supervisor.start()
            for each in self._connections:
                if not each.is_local:
                    each.dial()

        self._meta.get(ResourceType.MQTT_TOPICS, *_ROW, then=read)

    def _change(self, topic: str, *, wanted: bool) -> None:
        if topic in routing.SUBSCRIPTIONS:
            return  # edgecore's own, with and without a Rule
        if not is_filter(topic):
            _log.warning("not subscribed to %r: no topic", topic[:200])
        elif not self._are_read:
            if len(self._earlier) < MOST_TOPICS:
                self._earlier.append((topic, wanted))
        elif not wanted:
            if topic in self._topics:
                self._topics.remove(topic)
                self._keep_topics()
            for each in self._connections:
                each.unsubscribe(topic)
        elif len(self._topics) >= MOST_TOPICS:
            _log.warning("not subscribed to %r: there are %d topics already", topic[:200], MOST_TOPICS)
        elif topic not in self._topics:
            self._topics.append(topic)
            self._keep_topics()
            for each in self._connections:
                each.subscribe(topic)

    def _keep_topics(self) -> None:
        """Store the subscriptions, and try that again if it fails: what the cloud sends again is no change here."""
        again, self._keeping = self._keeping, None
        if again is not None:
            again.cancel()

        def kept(result: bytes | CallError | None) -> None:
            if isinstance(result, CallError):
                _log.error("the subscriptions are not stored, and are stored later: %s", result)
                self._keeping = self._keeping or self.after(_AGAIN_AFTER, self._keep_topics)

        row = msgspec.json.encode({"topics": self._topics})
        self._meta.update(ResourceType.MQTT_TOPICS, *_ROW, row, then=kept)

    def _publish(self, topic: str, payload: bytes | None, request: Message | None = None) -> None:
        if payload is None or not is_topic(topic) or len(payload) > routing.MAX_PAYLOAD:
            wanted = f"a topic without wildcards and a text of at most {routing.MAX_PAYLOAD} bytes are wanted"
            self._refuse(topic, wanted, request)
            return
        left = len(self._connections)

        def done(why: str) -> None:
            nonlocal left
            left -= 1
            if why or not left:
                self._answer(request, why)

        for each in self._connections:
            each.publish(topic, payload, done if request is not None else None)
        if self._counters.dropped and not self._is_dropping:
            self._is_dropping = True
            _log.warning("messages for applications are dropped: an MQTT broker does not take them")

    def _refuse(self, topic: str, why: str, request: Message | None) -> None:
        _log.warning("not published under %r: %s", topic[:200], why)
        self._answer(request, why)

    def _answer(self, request: Message | None, why: str) -> None:
        """Answer a sender that waits; of several answers the first counts."""
        if request is None:
            return
        if why:
            self.respond(request.error(self.clock, why, source=self.name, group=Group.USER))
        else:
            self.reply(request)


def _inside(broker: InternalBroker) -> BrokerSettings:
    return BrokerSettings(str(broker.socket), 0, broker.client_id, qos=broker.qos, retain=broker.retain)


def _error_of(result: Message | BeehiveError) -> str:
    if isinstance(result, BeehiveError):
        return str(result)
    return "edgehub has no room for them" if _is_well(result) else result.content_bytes().decode(errors="replace")


def _is_well(result: Message | BeehiveError) -> bool:
    return isinstance(result, Message) and result.route.operation != Operation.ERROR


def _payload(message: Message) -> bytes | None:
    """Return the bytes of a text; None for any other content, as KubeEdge refuses it."""
    try:
        return message.content_as(str).encode() if not isinstance(message.content, bytes) else message.content
    except (BeehiveError, UnicodeError):
        return None


def _read(row: bytes) -> list[str]:
    try:
        found: list[str] = decode_json(row, dict[str, list[str]]).get("topics", [])
    except (msgspec.DecodeError, UnicodeError):
        _log.error("the stored subscriptions cannot be read")
        return []
    return [topic for topic in found if is_filter(topic)]
