"""The MQTT broker of a simulated node, and the module that stands in eventbus's place.

Both keep the contract of mosquitto and eventbus (QoS 1, a session that the broker keeps): a device's message stays with
the broker until the node has stored it, and comes again, in order, on a new connection; so it may come twice, and none
is lost. The node's messages wait in its process while the broker is away, and are lost with the process. Each device
gets each message that the broker has, once.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from beehive import Group, Message, Module, ModuleName, Operation, Source, handles
from beehive.errors import BeehiveError
from modules.edge.devicetwin import topics
from modules.edge.eventbus import routing
from modules.lab.simulate.publication_watch import PublicationWatch
from modules.lab.simulate.world import World

_PATIENCE: Final = 60.0
"""Seconds for devicetwin to store a message (eventbus's)."""
_DELAYS: Final = (1.0, 30.0)
"""Seconds until the broker is dialled again (eventbus's)."""
_LATENCY: Final = (0.0005, 0.01)


class Published(NamedTuple):
    """A message of a device that the node has not acknowledged."""

    number: int
    topic: str
    payload: str


class SimulatedBroker:
    """The broker of one node; it outlives the node's processes.

    Args:
        world: the world of the run.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._away = 0
        self._waiting: OrderedDict[int, Published] = OrderedDict()
        self._number = 0
        self._session: BrokerSession | None = None
        self._last = 0.0
        """When the last message arrives, so that none overtakes another."""
        self.subscribers: list[Callable[[str, str], None]] = []
        """They take topic and payload of the node's messages."""

    @property
    def is_empty(self) -> bool:
        """Whether the node has acknowledged everything."""
        return not self._waiting

    def holds(self, payload_part: str) -> bool:
        """Return whether a message that the node has not acknowledged contains a text."""
        return any(payload_part in one.payload for one in self._waiting.values())

    def publish(self, topic: str, payload: str) -> None:
        """Take a message of a device."""
        self._number += 1
        one = Published(self._number, topic, payload)
        self._waiting[one.number] = one
        self._send(one)

    def connect(self, session: "BrokerSession") -> bool:
        """Begin a session of the node, and send it all unacknowledged messages; return whether it begins."""
        if self._away:
            return False
        self._session = session
        for one in list(self._waiting.values()):
            self._send(one)
        return True

    def end_session(self) -> None:
        """End the session, as when the node's process has ended."""
        self._session = None

    def acknowledge(self, session: "BrokerSession", number: int) -> None:
        """Forget a message that the node has stored."""
        if session is self._session:
            self._waiting.pop(number, None)

    def published_by_node(self, session: "BrokerSession", topic: str, payload: str) -> None:
        """Pass a message of the node on to the devices, after a while."""
        if session is self._session:
            self._later(lambda: self._notify(topic, payload))

    def go_away(self) -> None:
        """End the session, and accept none until `come_back`."""
        self._away += 1
        session, self._session = self._session, None
        if session is not None:
            session.lose()

    def come_back(self) -> None:
        """Accept sessions again."""
        self._away -= 1

    def _send(self, one: Published) -> None:
        session = self._session
        if session is not None:
            self._later(lambda: session.receive(one) if self._session is session else None)

    def _notify(self, topic: str, payload: str) -> None:
        for hear in self.subscribers:
            hear(topic, payload)

    def _later(self, function: Callable[[], None]) -> None:
        self._last = max(self._last + 1e-5, self._world.now() + self._world.random.uniform(*_LATENCY))
        self._world.at(self._last, function)


class BrokerSession(Module):
    """The stand-in for eventbus, which does as it does with each message.

    Args:
        broker: the node's.
        publications: receives each message for the cloud that is acknowledged.
    """

    name = ModuleName.EVENTBUS
    group = Group.BUS

    def __init__(self, broker: SimulatedBroker, publications: PublicationWatch) -> None:
        super().__init__()
        self._broker = broker
        self._publications = publications
        self._is_up = False
        self._waiting: deque[tuple[str, str]] = deque()

    def on_start(self) -> None:
        """Dial."""
        self._dial()

    def on_stop(self) -> None:
        """End the session."""
        self._broker.end_session()

    @handles(None, Operation.PUBLISH)
    def publish(self, message: Message) -> None:
        """Publish the content under the resource as topic, now or when the broker is back."""
        self._waiting.append((message.route.resource, message.content_as(str)))
        self._pump()

    @handles()
    def ignore(self, _message: Message) -> None:
        """Ignore anything else, such as edgehub's connection event."""

    def receive(self, one: Published) -> None:
        """Take a message from the broker; any thread."""
        self.call_soon(lambda: self._store(one))

    def lose(self) -> None:
        """Take the news that the connection is lost; any thread."""
        self.call_soon(self._lost)

    def _store(self, one: Published) -> None:
        if not self._is_up:
            return
        if not routing.is_for_devices(one.topic):
            self._upload(one)
            return
        said = self.message(
            topics.resource_of(one.topic), Operation.RESPONSE, one.payload, source=Source.BUS, group=Group.USER
        )
        self.request(ModuleName.DEVICETWIN, said, _PATIENCE, lambda result: self._stored(one, result))

    def _upload(self, one: Published) -> None:
        """Let edgehub store a message for the cloud."""
        content = [one.topic, one.payload]
        said = self.message("session", Operation.UPLOAD, content, source=Source.BUS, group=Group.USER)

        def answered(result: Message | BeehiveError) -> None:
            is_stored = isinstance(result, Message) and result.route.operation != Operation.ERROR
            if is_stored and self._is_up:
                self._publications.acknowledged(one.payload)
            self._stored(one, result)

        self.request(ModuleName.EDGEHUB, said, _PATIENCE, answered)

    def _stored(self, one: Published, result: Message | BeehiveError) -> None:
        if not self._is_up:
            return
        if isinstance(result, Message) and result.route.operation != Operation.ERROR:
            self._broker.acknowledge(self, one.number)
            return
        self._broker.end_session()
        self._lost()

    def _lost(self) -> None:
        if self._is_up:
            self._is_up = False
            self.after(self.clock.random.uniform(*_DELAYS), self._dial)

    def _dial(self) -> None:
        self._is_up = True
        if not self._broker.connect(self):
            self._lost()
        self._pump()

    def _pump(self) -> None:
        while self._is_up and self._waiting:
            self._broker.published_by_node(self, *self._waiting.popleft())
