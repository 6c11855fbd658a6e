"""Our edge with the recorded cloud: a small server sends the messages of a real cloudcore over a real websocket.

The test follows the recording step by step. For a request of the real edge, ours must send the same request (once, in
that file), and the script sends the recorded answer. The script sends the real cloud's unrequested messages, and our
edge must acknowledge them as the real edge did. metamanager with a real file, edgehub and edged are ours; the container
runtime is the fake one.
"""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beehive import Hive, Message, RealClock, Threads, decode, encode
from edged.eviction_api.thresholds import EvictionSettings
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edgehub import EdgeHubSettings, install
from metamanager.module import MetaManager, MetaSettings
from modules.lab.doubles.container_runtime import FakeRuntime
from tests.edgehub.clouds import LibraryCloud
from tests.interop.entries import Json, Step, entries, step_of
from tests.support.patience import PATIENCE

NODE = "lab-edge"
CLOCK = RealClock()

NOT_OURS = {("get", "membership/detail"): "devicetwin asks for the devices of the node"}
"""Messages of the real edge that ours does not send, each with the reason."""

OURS_ALONE = {("query", f"null/node/{NODE}"): "a node that is there already is read from the cloud, not from the store"}
"""Requests of our edge that the real one did not send, each with the reason."""


class Script:
    """The recorded cloud, with the messages that our edge sent to it."""

    def __init__(self, cloud: LibraryCloud) -> None:
        self.port = cloud.port
        self._cloud = cloud
        self._answers: dict[Step, deque[Json]] = defaultdict(deque)
        self._acknowledged: dict[str, Json] = {}
        self._requests: dict[Step, Json] = {}
        self._waiting: dict[str, Json] = {}
        self.file = ""
        self.asked: dict[str, set[Step]] = defaultdict(set)
        """Requests of our edge, by file."""
        self.phases: dict[str, set[str]] = defaultdict(set)
        """Phases that our edge reported, by the resource of the patch."""
        self.unwanted: list[Message] = []
        """Errors, and acknowledgements of messages that a real edge does not acknowledge."""

    def learn(self, entries: list[Json]) -> None:
        """Load the answers and acknowledgements of a recording."""
        requests = {entry["msg"]["header"]["msg_id"]: step_of(entry["msg"]) for entry in entries}
        for entry in entries:
            message = entry["msg"]
            parent = message["header"].get("parent_msg_id", "")
            if parent and entry["dir"] == "edge->cloud":
                self._acknowledged[parent] = message
            elif parent:
                self._answers[requests[parent]].append(message)
            elif entry["dir"] == "edge->cloud":
                self._requests[step_of(message)] = message
            elif step_of(message) == ("update", f"null/node/{NODE}"):
                self._answers["query", f"null/node/{NODE}"] = deque([message])

    def connect(self) -> Json:
        """Wait for our edge; return the headers of its handshake."""
        connection = self._cloud.accept()
        assert connection.request is not None
        return {name.lower(): value for name, value in connection.request.headers.raw_items()}

    def forget(self) -> None:
        """Drop what a stopped edge has sent, and the answers that it will not acknowledge any more."""
        while not self._cloud.frames.empty():
            self._cloud.frames.get()
        self._waiting.clear()

    def push(self, recorded: Json) -> None:
        """Send an unrequested message of the real cloud, and wait until our edge has acknowledged it."""
        self._send(recorded)
        self.take_until(lambda: recorded["header"]["msg_id"] not in self._waiting, f"acknowledge {step_of(recorded)}")

    def wait_for(self, step: Step) -> None:
        """Wait until our edge has sent this request since the beginning of the file."""
        self.take_until(lambda: step in self.asked[self.file], f"ask {step}")

    def wait_for_phase(self, resource: str, phase: str) -> None:
        """Wait until our edge has reported that phase of a pod."""
        self.take_until(lambda: phase in self.phases[resource], f"report {phase} for {resource}")

    def settle(self) -> None:
        """Wait until our edge has sent all acknowledgements of the real one."""
        self.take_until(lambda: not self._waiting, "acknowledge all answers")

    def take_until(self, condition: Callable[[], bool], what: str) -> None:
        """Receive messages until the condition is true."""
        deadline = CLOCK.monotonic() + PATIENCE
        while not condition():
            assert CLOCK.monotonic() < deadline, f"{self.file}: our edge did not {what}"
            self.take()

    def take(self) -> None:
        """Receive our edge's next message: answer it, or record its acknowledgement."""
        frame = self._cloud.frame()
        message = decode(frame if isinstance(frame, bytes) else frame.encode())
        step = (message.route.operation, message.route.resource)
        if message.parent_id:
            self._compare_acknowledgement(message)
        elif step[0] == "error":
            self.unwanted.append(message)
        elif step != ("keepalive", "node"):
            self.asked[self.file].add(step)
            self._compare_envelope(message, self._requests.get(step))
            self._note_phase(message)
            self._answer(message)

    def _answer(self, request: Message) -> None:
        answers = self._answers.get((request.route.operation, request.route.resource))
        assert answers, f"no real edge asked {request.route}"
        recorded = answers.popleft() if len(answers) > 1 else answers[0]
        route = {**recorded["route"], "operation": "response", "resource": request.route.resource}
        self._send({**recorded, "route": route}, parent=request.id)

    def _send(self, recorded: Json, parent: str = "") -> None:
        header = {**recorded["header"], **({"parent_msg_id": parent} if parent else {})}
        acknowledgement = self._acknowledged.get(header["msg_id"])
        if parent:
            header["msg_id"] = f"{header['msg_id']}/{parent}"
        if acknowledgement is not None:
            self._waiting[header["msg_id"]] = acknowledgement
        assert self._cloud.current is not None
        self._cloud.current.send(json.dumps({**recorded, "header": header}))

    def _compare_acknowledgement(self, ours: Message) -> None:
        recorded = self._waiting.pop(ours.parent_id, None)
        if recorded is None:
            self.unwanted.append(ours)
        else:
            self._compare_envelope(ours, recorded)
            assert ours.content_as(str) == recorded["content"]

    def _compare_envelope(self, ours: Message, recorded: Json | None) -> None:
        if recorded is not None:
            sent = json.loads(encode(ours))
            assert sent["route"] == recorded["route"]
            assert sent["header"].keys() == recorded["header"].keys()

    def _note_phase(self, message: Message) -> None:
        if "/podpatch/" in message.route.resource:
            patch = json.loads(message.content_as(str))
            self.phases[message.route.resource].add(patch["status"].get("phase", ""))


class Node:
    """Our edge, which can be restarted on its files."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._port = port
        self._memory = Threads()
        self.runtime = FakeRuntime(self._memory, ["docker.io/library/busybox:1.35"])
        self._hive: Hive | None = None

    def start(self) -> None:
        """Start the modules, as the process does."""
        settings = EdgedSettings(
            node_name=NODE,
            root=self._directory / "edged",
            pod_logs=self._directory / "logs",
            runtime_endpoint="unix:///fake",
            node_ip="192.0.2.2",
            server_port=0,
            lease_duration=2,
            status_period=0.5,
            node_report_period=1.0,
            eviction=EvictionSettings(),  # the machine's disk may be fuller than the thresholds
        )
        url = f"ws://127.0.0.1:{self._port}/e632aba927ea4ac2b575ec1603d56f10/{NODE}/events"
        self._hive = Hive(Threads())
        self._hive.add(MetaManager, MetaSettings(str(self._directory / "edgecore.db")))
        self._hive.add(Edged, settings, self.runtime.connect, Snapshots(), "v1.32")
        install(self._hive, EdgeHubSettings(url=url, node=NODE, message_qps=0, reconnect_base=0.05))
        self._hive.start()

    def stop(self) -> None:
        """Stop the modules; containers are left running."""
        if self._hive is not None:
            self._hive.stop(60.0)
            self._hive.clock.close()
            self._hive = None

    def close(self) -> None:
        """Stop everything."""
        self.stop()
        self._memory.close()


@pytest.fixture
def script() -> Iterator[Script]:
    with LibraryCloud() as cloud:
        yield Script(cloud)


@pytest.fixture
def node(tmp_path: Path, script: Script) -> Iterator[Node]:
    made = Node(tmp_path, script.port)
    yield made
    made.close()


def test_our_edge_sends_all_messages_of_the_real_one(script: Script, node: Node) -> None:
    """The whole recording as the history of one node: pods run, one is deleted, the edge restarts and adopts one."""
    everything = list(entries("today"))
    script.learn([entry for _, entry in everything if entry["kind"] == "ws"])
    for file, entry in everything:
        script.file = file
        if entry["kind"] == "http-request":
            _start_anew(script, node, dict(entry["headers"]))
        elif entry["dir"] == "cloud->edge":
            if not entry["msg"]["header"].get("parent_msg_id"):
                script.push(entry["msg"])
        elif not entry["msg"]["header"].get("parent_msg_id"):
            step = step_of(entry["msg"])
            if step[0] != "keepalive" and step not in NOT_OURS:
                script.wait_for(step)
                _wait_for_phase(script, entry["msg"])
    script.settle()
    assert script.unwanted == []
    asked = set().union(*script.asked.values())
    assert asked - {step_of(entry["msg"]) for _, entry in everything if entry["kind"] == "ws"} <= OURS_ALONE.keys()
    assert node.runtime.running() == ["bb", "bb"]
    assert node.runtime.calls["create_container"] == 3, "the one that ran was adopted"


def _start_anew(script: Script, node: Node, recorded: Json) -> None:
    node.stop()
    script.forget()
    node.start()
    ours = script.connect()
    for name, value in recorded.items():
        if name.lower() in ("node_id", "project_id", "connectionuse"):
            assert ours[name.lower()] == value
    assert "sec-websocket-extensions" not in ours


def _wait_for_phase(script: Script, recorded: Json) -> None:
    operation, resource = step_of(recorded)
    if operation == "patch" and "/podpatch/" in resource:
        phase = json.loads(recorded["content"])["status"].get("phase")
        if phase:
            script.wait_for_phase(resource, phase)
