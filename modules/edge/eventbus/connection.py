"""The connection to one broker: its session, the messages that wait for it, and the time of the next attempt to
connect.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from beehive import Actor, Module, Timer
from beehive.backoff import Backoff
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.publications import Publications, QueuedMessage
from modules.edge.eventbus.session import BrokerSettings, MqttSession

_log = logging.getLogger(__name__)

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 30.0
"""Bounds of the delay before the broker is dialled again, in seconds; it is drawn at random. The upper one doubles with
each session that lasted no longer than `LONGEST_DELAY`.
"""

MOST_ENDED: Final = 1000
"""Ended subscriptions that a broker is told of again."""


class SessionRunner(Actor):
    """The actor that runs each session until its end; close the session before stopping the actor."""

    def on_receive(self, message: object) -> None:
        """Run a session."""
        if isinstance(message, SessionLink):
            message.ended(message.session.run(message))


class SessionLink:
    """A session, and its reports on the module's thread; reports of an earlier session are dropped."""

    def __init__(self, connection: "BrokerConnection", session: MqttSession) -> None:
        self._connection = connection
        self.session = session
        self.id = connection.module.clock.new_id()
        """Names the session to the module that stores its messages."""
        self.is_given_up = False
        """Whether a message could not be stored: then the broker is to send it, and all later ones, again."""

    @property
    def is_current(self) -> bool:
        """Whether no later session has taken its place."""
        return self._connection.link is self

    def stored(self, messages: Sequence[Received]) -> None:
        """Acknowledge messages to the broker."""
        self._connection.accept_stored()
        self.session.answered(messages)

    def give_up(self) -> None:
        """End the session, so that the next one gets all again that has no acknowledgement."""
        self.is_given_up = True
        self._connection.give_up()
        self.session.close()

    def connected(self) -> None:
        """See `SessionEvents`."""
        self._soon(self._connection.connected)

    def received(self, messages: list[Received]) -> None:
        """See `SessionEvents`."""
        self._soon(lambda: self._connection.handle(self, messages))

    def published(self, numbers: list[int]) -> None:
        """See `SessionEvents`."""
        self._soon(lambda: self._connection.published(numbers))

    def ended(self, why: str) -> None:
        """Report the end."""
        self._soon(lambda: self._connection.session_ended(why))

    def _soon(self, report: Callable[[], None]) -> None:
        self._connection.module.call_soon(lambda: report() if self.is_current else None)


Handler = Callable[[SessionLink, list[Received]], None]
"""A handler of the messages of applications, which answers the link's session when they are stored."""


class BrokerConnection:
    """A connection that keeps a session with a broker, and publishes in order through a bounded queue: a slow broker
    delays nothing else.

    It runs on the module's thread and leaves the socket to its `SessionRunner`.

    Args:
        module: eventbus.
        name: of the broker, in the metrics and the log.
        settings: of the broker.
        topics: which each session subscribes to.
        handle: called with the messages of applications.
        counters: of eventbus.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        settings: BrokerSettings,
        topics: Callable[[], Iterable[str]],
        handle: Handler,
        counters: EventBusCounters,
    ) -> None:
        self.module = module
        self.name = name
        self._settings = settings
        self._topics = topics
        self.handle = handle
        self._counters = counters
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        self._is_up = self._has_given_up = False
        self._up_since = 0.0
        self._down_since = module.clock.monotonic()
        self.problem = ""
        """Why the last session has ended; empty if there was none."""
        self._pumps = False
        """Whether a call of `_pump` waits in the inbox: it finds all messages that came to the inbox before it."""
        self._redial: Timer | None = None
        self._ended: dict[str, None] = {}
        """Topics of ended subscriptions, of which each session tells the broker: it keeps subscriptions with the
        session, and may have been away.
        """
        self.publications = Publications(dropped=counters.dropped)
        self.link: SessionLink | None = None
        """The session under way."""

    @property
    def is_local(self) -> bool:
        """Whether the broker is edgecore's own."""
        return self._settings.is_local

    def down_for(self, now: float) -> float:
        """Return the seconds without an accepted session; 0 while there is one.

        Args:
            now: monotonic seconds.
        """
        return 0.0 if self._is_up else now - self._down_since

    def start(self) -> None:
        """Start the session's actor; `dial` begins."""
        self._runner = self.module.start_actor(SessionRunner, name=f"{self.module.name}/{self.name}")
        self._counters.connected[self.name] = False

    def dial(self) -> None:
        """Connect now, unless a session is under way."""
        if self._redial is not None:
            self._redial.cancel()
            self._redial = None
        if self.link is None:
            session = MqttSession(self._settings, self._topics(), self.module.clock, self._ended)
            self.link = SessionLink(self, session)
            self._runner.tell(self.link)

    def close(self) -> None:
        """Close the session; the broker keeps later messages for the next one."""
        self._counters.connected[self.name] = self._is_up = False
        if self.link is not None:
            self.link.session.close()
            self.link = None

    def publish(self, topic: str, payload: bytes, done: Callable[[str], None] | None = None) -> None:
        """Publish now or later; `done` is called when the broker has it, or with why it was dropped."""
        self.publications.put(QueuedMessage(topic, payload, self.module.clock.monotonic(), done))
        if not self._pumps:
            self._pumps = True
            self.module.call_soon(self._pump)

    def subscribe(self, topic: str) -> None:
        """Subscribe immediately, if there is a session; the next one does anyway."""
        self._ended.pop(topic, None)
        if self.link is not None:
            self.link.session.subscribe(topic)

    def unsubscribe(self, topic: str) -> None:
        """End a subscription, immediately if there is a session, and in each later one."""
        if topic not in self._ended and len(self._ended) >= MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._ended[topic] = None
        if self.link is not None:
            self.link.session.unsubscribe(topic)

    def accept_stored(self) -> None:
        """Dial without a delay again after the end of a session: messages are stored again."""
        if self._has_given_up:
            self._has_given_up = False
            self._backoff.reset()

    def give_up(self) -> None:
        """Dial ever later after the end of each session, as a message was not stored."""
        self._has_given_up = True

    def connected(self) -> None:
        """Publish what waits: the broker has accepted the session and answered its subscriptions."""
        self._counters.connected[self.name] = self._is_up = True
        self._counters.connections += 1
        self._up_since = self.module.clock.monotonic()
        _log.info("connected to the MQTT broker %s", self._settings.address)
        self._pump()

    def published(self, numbers: list[int]) -> None:
        """Handle the broker's acknowledgements of publications."""
        self._counters.published += len(numbers)
        for number in numbers:
            self.publications.acknowledged(number)
        self._pump()

    def session_ended(self, why: str) -> None:
        """Dial again, later."""
        self.problem = why
        lasted = self.module.clock.monotonic() - self._up_since
        if self._is_up:
            self._down_since = self.module.clock.monotonic()
        if self._is_up and lasted > LONGEST_DELAY and not self._has_given_up:
            self._backoff.reset()
        self._counters.connected[self.name] = self._is_up = False
        self.link = None
        self.publications.connection_lost()
        delay = self._backoff.next(self.module.clock.random)
        _log.warning("no MQTT broker at %s: %s; next try in %.1f s", self._settings.address, why, delay)
        self._redial = self.module.after(delay, self.dial)

    def _pump(self) -> None:
        self._pumps = False
        if not self._is_up or self.link is None:
            return
        now, taken = self.module.clock.monotonic(), []
        while (following := self.publications.next(now)) is not None:
            number, one = following
            taken.append((number, one.topic, one.payload))
        if taken:
            self.link.session.publish(taken)
