"""Messages of applications through mosquitto and edgecore to the cloud, and back, while edgecore is killed.

edgecore is a process, mosquitto a real one. The cloud is a websocket server that records what it gets; it asks of each
message that it sends whether it was published, as our router does.
"""

import random
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec
import psutil
from msgspec.structs import replace
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.devices import EventBusOptions
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.processes import Process, wait_until
from tests.modules.edge.eventbus.broker import Broker

TOPICS: Final = 10
SIZE: Final = 200
TIMEOUT: Final = 120.0
_TICK: Final = 0.01
_NODE: Final = "edge-1"
_UNBOUNDED: Final = ("max_queued_messages 0", "max_inflight_messages 200")
"""mosquitto drops what does not fit into its queue of 1,000 while edgecore is away; that is not what is tested."""


class Record:
    """Messages sent in one direction, and the received ones. Threads add; the main one reads at the end."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        """When, in monotonic seconds, by number."""
        self.acknowledged: set[int] = set()
        self.heard: dict[str, list[int]] = defaultdict(list)
        """Numbers in the order of their arrival, repetitions included, by topic."""
        self.delays: dict[int, float] = {}

    def hear(self, topic: str, text: str) -> None:
        """Record an arrival."""
        number = int(text[:8])
        self.heard[topic].append(number)
        self.delays.setdefault(number, monotonic() - self.sent.get(number, 0.0))

    @property
    def missing(self) -> int:
        """Acknowledged messages that have not arrived."""
        return len(self.acknowledged - self.delays.keys())

    @property
    def repeated(self) -> int:
        """Arrivals of what had arrived already."""
        return sum(map(len, self.heard.values())) - len(self.delays)

    def check(self) -> None:
        """Assert that each acknowledged message has arrived, and in order for each topic."""
        assert not self.missing, f"{self.missing} acknowledged messages have not arrived"
        for topic, numbers in self.heard.items():
            first = list(dict.fromkeys(numbers))
            assert first == sorted(first), f"{topic}: not in order"

    def quantile(self, share: float) -> float:
        """Return the delay in seconds below which a share of the messages arrived."""
        delays = sorted(self.delays.values())
        return delays[min(len(delays) - 1, int(share * len(delays)))] if delays else 0.0


class LoadCloud:
    """A websocket server in the cloud's place."""

    def __init__(self, up: Record, down: Record) -> None:
        self._up, self._down = up, down
        self._node: ServerConnection | None = None
        self._server: Server = serve(self._talk, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None)
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="load/cloud")
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether the node is there."""
        return self._node is not None

    def send(self, number: int) -> None:
        """Send a message to an application, if the node is there."""
        node = self._node
        if node is None:
            return
        header = {"msg_id": f"down-{number}", "timestamp": 1, "sync": True}
        route = {"source": "router_eventbus", "group": "user", "operation": "publish"}
        route["resource"] = f"out/{number % TOPICS}"
        self._down.sent[number] = monotonic()
        try:
            node.send(msgspec.json.encode({"header": header, "route": route, "content": text_of(number)}), text=True)
        except ConnectionClosed:
            return

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()

    def _talk(self, connection: ServerConnection) -> None:
        self._node = connection
        try:
            for frame in connection:
                self._take(msgspec.json.decode(frame))
        except ConnectionClosed:
            return
        finally:
            if self._node is connection:
                self._node = None

    def _take(self, message: dict[str, Any]) -> None:
        route, parent = message["route"], message["header"].get("parent_msg_id", "")
        if route["operation"] == "upload":
            self._up.hear(route["resource"], message["content"])
        elif parent.startswith("down-") and route["operation"] == "response":
            self._down.acknowledged.add(int(parent.removeprefix("down-")))


class Edge:
    """edgecore without pods, started again after each kill, with the processor time of all its lives."""

    def __init__(self, directory: Path, config: EdgeCoreConfig) -> None:
        self._directory = directory
        self._file = directory / "edgecore.yaml"
        self._file.write_text(render(config))
        self._process: Process | None = None
        self._spent = 0.0

    def start(self) -> None:
        """Start it."""
        log = self._directory / "edgecore.log"
        self._process = Process("modules.processes.edgecore", ["run", "--config", str(self._file)], log, preloads=())

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            assert self._process.runs, f"edgecore has ended by itself\n{self.tail()}"
            self._spent = self.processor_seconds()
            self._process.kill()
            self._process = None

    def processor_seconds(self) -> float:
        """Return the processor time of all lives so far."""
        if self._process is None:
            return self._spent
        times = psutil.Process(self._process.pid).cpu_times()
        return self._spent + times.user + times.system

    def resident(self) -> float:
        """Return its memory in megabytes of 10⁶ bytes."""
        return 0.0 if self._process is None else psutil.Process(self._process.pid).memory_info().rss / 1e6

    def tail(self) -> str:
        """Return the end of its log."""
        return "" if self._process is None else self._process.tail()


class Application:
    """Publishes for the cloud, and hears what it sends; its session outlives nothing, for the broker does not end."""

    def __init__(self, port: int, up: Record, down: Record) -> None:
        self._up = up
        self._flying: deque[int] = deque()
        ready = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="application", clean_session=False)
        self._client.max_inflight_messages_set(5000)

        def hear(_client: Client, _data: Any, message: MQTTMessage) -> None:
            down.hear(message.topic, message.payload.decode())

        self._client.on_connect = lambda client, *_rest: client.subscribe("out/#", 1)
        self._client.on_subscribe = lambda *_rest: ready.set()
        self._client.on_message = hear
        self._client.on_publish = self._published
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert ready.wait(TIMEOUT)

    def send(self, number: int) -> None:
        """Publish a message."""
        self._up.sent[number] = monotonic()
        self._flying.append(number)
        self._client.publish(f"plant/user/{number % TOPICS}", text_of(number), 1)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def _published(self, *_rest: Any) -> None:
        """Note an acknowledgement; a broker acknowledges in order (MQTT 3.1.1 §4.6)."""
        self._up.acknowledged.add(self._flying.popleft())


class Bed(NamedTuple):
    """All parts of a load."""

    edge: Edge
    cloud: LoadCloud
    application: Application
    up: Record
    down: Record

    def begin(self) -> None:
        """Wait until the node takes messages in both directions."""
        wait_until(lambda: self._passes(self.application.send, self.up), "messages reach the cloud", TIMEOUT)
        wait_until(lambda: self._passes(self.cloud.send, self.down), "messages reach the application", TIMEOUT)

    def _passes(self, send: Callable[[int], None], record: Record) -> bool:
        """Send message 0, which the broker drops before it knows the node; return whether one has arrived."""
        if 0 not in record.delays:
            send(0)
        return 0 in record.delays

    def run(self, rate: int, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Send so many messages a second in both directions; `each` is called between. A last one goes down, until the
        node has it: it may have been away for all others.
        """

        def send(number: int) -> None:
            self.application.send(number)
            self.cloud.send(number)

        paced(rate, seconds, send, each)
        last = int(rate * seconds) + 1
        wait_until(lambda: self._is_answered(last), "the node answers the last message", TIMEOUT)

    def _is_answered(self, number: int) -> bool:
        self.cloud.send(number)
        return number in self.down.acknowledged

    def rest(self) -> None:
        """Wait until everything acknowledged has arrived."""
        wait_until(lambda: len(self.up.acknowledged) == len(self.up.sent), "the broker has all", TIMEOUT)
        wait_until(lambda: not self.up.missing, "all is in the cloud", TIMEOUT)
        wait_until(lambda: not self.down.missing, "all is at the application", TIMEOUT)


class Survived(NamedTuple):
    """Result of a campaign whose invariants have held."""

    kills: int
    up: Record
    down: Record
    processor: float
    seconds: float

    def __str__(self) -> str:
        parts = ", ".join(
            f"{len(one.acknowledged)} of {len(one.sent)} messages {name} acknowledged ({one.repeated} came twice)"
            for name, one in (("up", self.up), ("down", self.down))
        )
        return (
            f"MQTT: {self.kills} kills in {self.seconds:.0f} s, {parts}; none lost or out of order; "
            f"{self.processor:.1f} s of processor time"
        )


def run(seed: int, kills: int, rate: int = 1000, seconds: float = 60.0) -> Survived:
    """Kill edgecore after random messages under load.

    Raises:
        AssertionError: an acknowledged message was lost, or came out of order.
    """
    draw = random.Random(f"{seed} mqtt")  # noqa: S311 - reproducible on purpose
    victims = sorted(draw.uniform(0.05, 0.95) * seconds * rate for _ in range(kills))
    with TemporaryDirectory(prefix="mqtt-") as directory, bed(Path(directory)) as made:

        def hurt() -> None:
            if victims and len(made.up.sent) > victims[0]:
                victims.pop(0)
                made.edge.kill()
                made.edge.start()

        try:
            made.begin()
            began = monotonic()
            made.run(rate, seconds, hurt)
            made.rest()
            assert not victims, f"{len(victims)} of {kills} kills were not made"
            made.up.check()
            made.down.check()
        except BaseException:
            print(made.edge.tail())  # noqa: T201 - a campaign's only witness
            raise
        return Survived(kills, made.up, made.down, made.edge.processor_seconds(), monotonic() - began)


def paced(rate: int, seconds: float, send: Callable[[int], None], each: Callable[[], None] = lambda: None) -> None:
    """Call `send` with the numbers from 1 on, so many a second; `each` is called between."""
    begin, number, never = monotonic(), 0, threading.Event()
    while number < rate * seconds:
        due = min(int(rate * seconds), int((monotonic() - begin) * rate))
        for each_number in range(number + 1, due + 1):
            send(each_number)
        number = max(number, due)
        each()
        never.wait(_TICK)


@contextmanager
def bed(directory: Path, *, modules: bool = True) -> Iterator[Bed]:
    """Start all parts; with devicetwin and eventbus, or without."""
    files = directory / "broker"
    files.mkdir()
    broker = Broker(files, *_UNBOUNDED).start()
    up, down = Record(), Record()
    cloud = LoadCloud(up, down)
    config = configuration(directory / "node", broker.port, f"127.0.0.1:{cloud.port}", modules=modules)
    edge = Edge(directory, config)
    application = Application(broker.port, up, down)
    try:
        edge.start()
        yield Bed(edge, cloud, application, up, down)
    finally:
        edge.kill()
        application.close()
        cloud.close()
        broker.stop()


def configuration(root: Path, broker: int, cloud: str, *, modules: bool = True) -> EdgeCoreConfig:
    """Return a node without pods whose messages to the cloud have no limit of rate."""
    config = EdgeCoreConfig.below(root)
    hub, edged = config.modules.edge_hub, config.modules.edged
    kubelet = replace(edged.tailored_kubelet_config, read_only_port=0)
    changed = replace(
        config.modules,
        edge_hub=replace(hub, websocket=replace(hub.websocket, server=f"ws://{cloud}"), message_qps=0),
        edged=replace(edged, hostname_override=_NODE, enable=False, tailored_kubelet_config=kubelet),
        event_bus=EventBusOptions(enable=modules, mqtt_server_external=f"tcp://127.0.0.1:{broker}"),
        device_twin=replace(config.modules.device_twin, enable=modules),
    )
    return replace(config, modules=changed)


def text_of(number: int) -> str:
    """Return the text of a message: its number, and padding."""
    return f"{number:08d}".ljust(SIZE, ".")
