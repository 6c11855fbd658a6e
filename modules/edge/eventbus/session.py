"""One connection to the broker, by paho-mqtt without its own threads.

The session is the broker's memory of this node (clean session off): messages that are published while edgecore restarts
wait at the broker. A message of QoS 1 is acknowledged when its receiver has stored it, not when it was read.
"""

import logging
import select
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec
from paho.mqtt.client import Client, ConnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from beehive import Clock
from beehive.printable import clipped
from beehive.sockets.tls import TlsFiles
from beehive.wakeup import Wakeup
from modules.edge.eventbus.client import Arrived, BufferedClient, acknowledge_at_once, send_at_once
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.publications import WINDOW
from modules.edge.eventbus.tls import client_context

_log = logging.getLogger(__name__)

KEEP_ALIVE: Final = 30
"""Seconds (KubeEdge)."""

CONNECT_SECONDS: Final = 10.0
"""For the connection, for the broker's answer, and for its next bytes until it has answered the subscriptions."""

MOST_UNANSWERED: Final = 1000
"""Messages of applications that are not stored yet; beyond them nothing more is read from the broker."""

_CAME: Final = select.POLLIN | select.POLLHUP | select.POLLERR
_TICK: Final = 10.0
"""Seconds between two checks of the keep-alive; the broker waits for one and a half of it."""


class BrokerSettings(msgspec.Struct, frozen=True):
    """Way to a broker, and rules for publishing there."""

    host: str
    """Name or address; with port 0 the path of a Unix socket."""
    port: int
    client_id: str
    user: str = ""
    password: str = ""
    tls: TlsFiles | None = None
    qos: int = 1
    """Quality of service of published messages."""
    retain: bool = False
    """Whether the broker keeps the newest message of each topic for later subscribers."""

    @property
    def is_local(self) -> bool:
        """Whether it is reached by a Unix socket."""
        return self.port == 0

    @property
    def address(self) -> str:
        """The broker's address, for the log."""
        return self.host if self.is_local else f"{self.host}:{self.port}"


class SessionEvents(Protocol):
    """The events of a session, on its own thread; each method does not block."""

    def connected(self) -> None:
        """Handle the broker's answer to session and subscriptions: later messages come."""

    def received(self, messages: list[Received]) -> None:
        """Handle messages, in this order."""

    def published(self, numbers: list[int]) -> None:
        """Handle the broker's acknowledgements of publications."""


class MqttSession:
    """A connection, from `run` until its end. All other methods may be called from any thread.

    Args:
        settings: of the broker.
        topics: subscribed to immediately.
        clock: for the deadline of the broker's answer.
        ended: topics of subscriptions of earlier sessions, which end.
    """

    def __init__(
        self, settings: BrokerSettings, topics: Iterable[str], clock: Clock, ended: Iterable[str] = ()
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = list(topics)
        self._ended = list(ended)
        self._commands: deque[Callable[[BufferedClient], object]] = deque()
        self._wakeup = Wakeup()
        self._closing = False
        self._refused = ""
        self._accepted = self._subscribed = False
        self._subscribing: dict[int, list[str]] = {}
        """The topics of each subscription that the broker has yet to answer, by its packet identifier."""
        self._opened: list[ssl.SSLSocket] = []
        """Sockets with TLS; paho leaves one open whose handshake has failed."""
        self._numbers: dict[int, int] = {}
        self._events: SessionEvents | None = None
        self._unanswered = 0

    def run(self, events: SessionEvents) -> str:
        """Connect, and exchange messages until the end; return why it has ended. Blocks; called once."""
        self._events = events
        client = BufferedClient(
            CallbackAPIVersion.VERSION2,
            client_id=self._settings.client_id,
            clean_session=False,
            transport="unix" if self._settings.is_local else "tcp",
            reconnect_on_failure=False,
            manual_ack=True,
        )
        try:
            self._prepare(client, events)
            client.on_socket_open = send_at_once
            # a peer on a Unix socket cannot vanish unnoticed
            client.connect(self._settings.host, self._settings.port or 1, 0 if self._settings.is_local else KEEP_ALIVE)
            return self._loop(client)
        except (OSError, ValueError) as error:
            return str(error) or type(error).__name__
        finally:
            self._end(client)

    def publish(self, publications: Sequence[tuple[int, str, bytes]]) -> None:
        """Publish, each under a number, a topic and with a payload; `published` reports the numbers."""

        def send(client: BufferedClient) -> None:
            settings, gone = self._settings, []
            for number, topic, payload in publications:
                mid = client.send(topic, payload, qos=settings.qos, retain=settings.retain)
                if mid:
                    self._numbers[mid] = number
                else:
                    gone.append(number)
            if gone and self._events is not None:
                self._events.published(gone)

        self._command(send)

    def answered(self, messages: Sequence[Received]) -> None:
        """Acknowledge messages: they are stored."""

        def acknowledge(client: BufferedClient) -> None:
            self._unanswered -= len(messages)
            for message in messages:
                client.acknowledge(message)

        self._command(acknowledge)

    def subscribe(self, topic: str) -> None:
        """Subscribe to a topic with QoS 1."""

        def begin(client: BufferedClient) -> None:
            if self._accepted:
                self._subscribe(client, [topic])
            else:
                self._topics.append(topic)

        self._command(begin)

    def unsubscribe(self, topic: str) -> None:
        """End a subscription, which an earlier session may have begun."""

        def end(client: BufferedClient) -> None:
            if not self._accepted:
                self._topics = [each for each in self._topics if each != topic]
            client.unsubscribe(topic)

        self._command(end)

    def close(self) -> None:
        """End the session's connection in good order, after the waiting messages were sent."""
        self._closing = True
        self._wakeup.wake()

    def _prepare(self, client: BufferedClient, events: SessionEvents) -> None:
        settings = self._settings
        client.connect_timeout = CONNECT_SECONDS
        client.max_inflight_messages_set(WINDOW)
        if settings.user:
            client.username_pw_set(settings.user, settings.password or None)
        if settings.tls is not None:
            client.tls_set_context(client_context(settings.tls, self._opened))

        def accepted(_client: Client, _data: Any, _flags: ConnectFlags, reason: ReasonCode, _properties: Any) -> None:
            if reason.is_failure:
                self._refused = f"the broker refuses this node: {reason}"
                return
            self._accepted = True
            if self._ended:
                client.unsubscribe(self._ended)
            self._subscribe(client, self._topics)

        def subscribed(_client: Client, _data: Any, mid: int, codes: list[ReasonCode], _properties: Any) -> None:
            for topic, code in zip(self._subscribing.pop(mid, ()), codes, strict=False):
                if code.is_failure:
                    what = clipped(topic)
                    _log.warning("the MQTT broker %s refuses the subscription to %s: %s", settings.address, what, code)
            if not self._subscribed:
                self._subscribed = True
                events.connected()

        client.on_connect, client.on_subscribe = accepted, subscribed

    def _subscribe(self, client: BufferedClient, topics: list[str]) -> None:
        _, mid = client.subscribe([(topic, 1) for topic in topics])
        if mid is not None:
            self._subscribing[mid] = topics

    @property
    def _has_room(self) -> bool:
        """Whether more is read from the broker."""
        return self._unanswered < MOST_UNANSWERED

    def _loop(self, client: BufferedClient) -> str:
        due = self._clock.monotonic() + CONNECT_SECONDS
        while not self._refused:
            if not self._subscribed and self._clock.monotonic() > due:
                return f"the broker has not answered within {CONNECT_SECONDS:.0f} s"
            connection = client.socket()
            if connection is None:
                return "the broker has ended the connection"
            if self._closing and not self._commands and not client.has_output:
                client.end()
                return "closed by this node"
            behind = self._has_room and client.is_behind
            wanted = self._has_room and not behind
            poll = select.poll()
            poll.register(self._wakeup, select.POLLIN)
            poll.register(connection, wanted * select.POLLIN | client.has_output * select.POLLOUT)
            pending = wanted and getattr(connection, "pending", int)() > 0
            ready = dict(poll.poll(0 if behind or pending else _TICK * 1000))
            came = pending or bool(ready.get(connection.fileno(), 0) & _CAME)
            code = self._turn(client, came=came, behind=behind)
            if code is not MQTTErrorCode.MQTT_ERR_SUCCESS:
                return self._refused or f"the connection was lost: {code.name}"
            if self._accepted and (came or behind or not self._has_room):  # messages that waited come before the answer
                due = self._clock.monotonic() + CONNECT_SECONDS
        return self._refused

    def _turn(self, client: BufferedClient, *, came: bool, behind: bool) -> MQTTErrorCode:
        self._wakeup.clear()
        while self._commands:
            self._commands.popleft()(client)
        code = MQTTErrorCode.MQTT_ERR_SUCCESS
        if came:
            client.read()
            acknowledge_at_once(client)
        if came or behind:
            code = self._report(client.handle(MOST_UNANSWERED - self._unanswered))
        if code is MQTTErrorCode.MQTT_ERR_SUCCESS and client.want_write():
            code = client.loop_write()
        if code is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            return code
        client.flush()
        return client.loop_misc()

    def _report(self, arrived: Arrived) -> MQTTErrorCode:
        """Report the received messages together, then the acknowledgements together."""
        numbers = [number for mid in arrived.published if (number := self._numbers.pop(mid, None)) is not None]
        self._unanswered += len(arrived.messages)
        if self._events is not None and arrived.messages:
            self._events.received(arrived.messages)
        if self._events is not None and numbers:
            self._events.published(numbers)
        return arrived.code

    def _command(self, command: Callable[[BufferedClient], object]) -> None:
        self._commands.append(command)
        self._wakeup.wake()

    def _end(self, client: BufferedClient) -> None:
        connection = client.socket()
        if connection is not None:
            connection.close()
        for each in self._opened:
            each.close()
        self._wakeup.close()
