"""The node as the screen sees it, over a socket, and the handler that answers there."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import Message, Module, ModuleName, RealClock, handles
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.request import Request
from beehive.http.responses import Reply, Stream, json, text
from beehive.http.router import HttpRoute, Router
from beehive.testing import Harness
from edged.pods.model import PodUid, WorkFigures
from edged.server.snapshots import EdgedReports, Snapshots
from edgehub.counters import LinkCounters, LinkState
from modules.apimachinery.types import NodeStatus, Pod, encode, from_value
from modules.apimachinery.types.nodes import NodeSystemInfo
from modules.apimachinery.types.pods import PodList
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.top.look import NodeSnapshot, Unreachable
from modules.processes.edgecore.top.node_view import SocketView
from modules.processes.edgecore.top.run import Poller
from modules.processes.edgecore.top.state import PATH, LinkReport, ModuleReport, WorkReport
from modules.processes.edgecore.top.state_handler import AgentStateHandler
from tests.beehive.http.requests import parse
from tests.modules.processes.edgecore.top.made import READY, pod, running, usage
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

CLOUD = "ws://cloud:10000"
Answers = dict[str, Callable[[Request], Reply]]


def handler(snapshots: Snapshots | None = None) -> tuple[AgentStateHandler, Harness]:
    """The handler of a hive with two modules; one does not answer."""
    bee = Harness()

    class Silent(Module):
        name = ModuleName.EDGEHUB

        @handles()
        def nothing(self, message: Message) -> None:
            """Keeps quiet."""

    class Asking(Module):
        name = ModuleName.METAMANAGER

        @handles()
        def ask(self, message: Message) -> None:
            self.request(ModuleName.EDGEHUB, self.message("default/configmap/c", "query"), 60.0, lambda _: None)

    bee.add(Silent)
    bee.add(Asking)
    return AgentStateHandler("edge-1", CLOUD, bee.hive, snapshots or Snapshots()), bee


def test_the_state_of_an_agent_that_has_just_started() -> None:
    made, bee = handler()
    with bee:
        bee.start()
        state = made.state()
    ready = ModuleReport("ready")
    assert (state.node, state.conditions, state.work, state.held) == ("edge-1", (), None, {})
    assert state.modules == {"websocket": ready, "metamanager": ready}
    assert state.link == LinkReport()


def test_the_state_of_an_agent() -> None:
    """Link, queues, node, and what the cloud has been asked."""
    snapshots = Snapshots()
    made, bee = handler(snapshots)
    with bee:
        bee.start()
        now = bee.hive.clock.monotonic()
        info = NodeSystemInfo(container_runtime_version="containerd://2.0")
        snapshots.node_status = NodeStatus(conditions=READY, node_info=info, capacity={"cpu": "4", "pods": 110})
        due = {PodUid("later"): now + 9.5, PodUid("now"): now - 1}
        figures = WorkFigures(1, 2, due, frozenset({PodUid("later")}))
        snapshots.reports = EdgedReports(lambda: figures, lambda _namespace, _name: None, dict)
        made.counters = counters = LinkCounters(lambda: {"state": (2, 300)})
        counters.link = LinkState(None, 5.0, 3, "refused", now + 4)
        bee.hive.send(ModuleName.METAMANAGER, Message.new(bee.hive.clock, source="test", resource="x", operation="y"))
        bee.settle()
        state = made.state()
        assert state.link == LinkReport(
            enabled=True, server=CLOUD, lost_at=5.0, failures=3, why="refused", next_try=4.0
        )
        assert (state.work, state.asked) == (
            WorkReport(1, 2, {"later": 9.5, "now": 0.0}, ("later",)), ("default/configmap/c",)
        )  # fmt: skip
        assert (state.runtime, state.capacity, state.held["state"].messages) == (
            "containerd://2.0", {"cpu": "4", "pods": "110"}, 2
        )  # fmt: skip
        counters.connected, counters.link = True, LinkState(77.0)
        assert made.state().link == LinkReport(enabled=True, server=CLOUD, connected_at=77.0)


@contextlib.contextmanager
def served(path: Path, answers: Answers) -> Iterator[SocketView]:
    """A node that gives these answers."""
    routes = Router([HttpRoute(pattern, answer) for pattern, answer in answers.items()])
    with stopping(HttpServer(listen_unix(path), routes, RealClock())) as server:
        server.start()
        yield SocketView(NodeClient(path))


def answers() -> Answers:
    """A node's answers, with one pod."""
    made, bee = handler()
    with bee:
        bee.start()
        state = made(parse(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))
    pods = PodList(items=(from_value(Pod, pod("web", running())),))
    return {
        PATH: lambda _: state,
        "/pods": lambda _: json(encode(pods)),
        "/stats/summary": lambda _: json(encode(usage(web=(1, 2)))),
        "/api/v1/events": lambda _: json(b'{"items":[{"reason":"Starting"}]}'),
        "/api/v1/namespaces/{namespace}/events": lambda _: json(
            b'{"items":[{"reason":"A","involvedObject":{"name":"web","namespace":"default"}},'
            b'{"reason":"B","involvedObject":{"name":"other","namespace":"default"}}]}'
        ),
    }


def test_a_look(tmp_path: Path) -> None:
    with served(tmp_path / "s", answers()) as view:
        look = view.snapshot()
    assert isinstance(look, NodeSnapshot)
    assert (look.state.node, [each["metadata"]["name"] for each in look.pods]) == ("edge-1", ["web"])
    assert look.usage_by_uid()["uid-default-web"].pod_ref.name == "web"
    assert look.disk is not None
    assert 0 < look.disk.used < look.disk.total


def test_use_is_measured_less_often_when_it_takes_long(tmp_path: Path) -> None:
    """A hundred times as long as it takes, but a quarter of a minute at most; in between the last figures stay."""
    now, asked, takes = [100.0], [], [0.0625]

    def measure(_: Request) -> Reply:
        asked.append(now[0])
        now[0] += takes[0]
        return json(encode(usage(web=(1, 2))))

    with served(tmp_path / "s", answers() | {"/stats/summary": measure}) as view:
        slow = SocketView(NodeClient(tmp_path / "s"), lambda: now[0])
        for _ in range(10):
            look = slow.snapshot()
            assert isinstance(look, NodeSnapshot)
            assert look.usage is not None
            now[0] += 1.0
        assert asked == [100.0, 107.0625]
        takes[0] = 30.0
        now[0] = 200.0
        slow.snapshot()
        now[0] = 214.0 + 16
        slow.snapshot()
        assert asked[2:] == [200.0, 230.0]
    assert view is not slow


def test_a_node_without_statistics_can_be_looked_at(tmp_path: Path) -> None:
    given = answers() | {"/stats/summary": lambda _: text(503, "edged does not run")}
    with served(tmp_path / "s", given) as view:
        look = view.snapshot()
    assert isinstance(look, NodeSnapshot)
    assert look.usage is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({PATH: lambda _: text(404, "nothing is served here")}, "older than this command"),
        ({PATH: lambda _: json(b"[]")}, "edgecore's answer cannot be read: Expected `object`"),
        ({"/pods": lambda _: json(b"\xff")}, "edgecore's answer cannot be read"),
        ({"/stats/summary": lambda _: json(b"{}")}, "edgecore's answer cannot be read"),
        ({"/pods": lambda _: text(500, "broken\x1b[2J")}, "broken"),
    ],
)
def test_invalid_answers(tmp_path: Path, given: Answers, why: str) -> None:
    with served(tmp_path / "s", answers() | given) as view:
        gone = view.snapshot()
    assert isinstance(gone, Unreachable)
    assert why in gone.why


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    """Without its socket, and with a socket without a listener."""
    path = tmp_path / "s"
    assert SocketView(NodeClient(path)).snapshot() == Unreachable("edgecore is not running")
    listen_unix(path).close()
    assert SocketView(NodeClient(path)).snapshot() == Unreachable("edgecore is not running")


def test_events_of_a_pod_and_of_all(tmp_path: Path) -> None:
    """A server that ignores field selectors answers with other pods' events."""
    with served(tmp_path / "s", answers()) as view:
        assert [event["reason"] for event in view.events("default", "web")] == ["A"]
        assert [event["reason"] for event in view.events("", "")] == ["Starting"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: text(404, "no"), "this node serves no events"),
        (lambda _: json(b"[1]"), "cannot be read"),
        (lambda _: text(503, "it starts"), "it starts"),
    ],
)
def test_events_that_are_not_served(tmp_path: Path, answer: Callable[[Request], Reply], why: str) -> None:
    with served(tmp_path / "s", answers() | {"/api/v1/events": answer}) as view, pytest.raises(NodeError, match=why):
        view.events("", "")


def test_a_log_is_followed_until_it_is_closed(tmp_path: Path) -> None:
    """The server keeps the stream open; closing it here ends the reading."""
    gone = []

    def log(request: Request) -> Stream:
        assert (request.flag("follow"), request.parts[1:]) == (True, ("default", "web", "app"))

        def pieces(peer: Any) -> Iterator[bytes]:
            yield b"one\n"
            while not peer.gone_within(60.0):
                yield b"more\n"
            gone.append(True)

        return Stream("text/plain", pieces, lambda: gone.append(True))  # type: ignore[arg-type]

    with served(tmp_path / "s", {"/containerLogs/{a}/{b}/{c}": log}) as view:
        lines = view.log("default", "web", "app")
        pieces = lines.pieces()
        assert next(pieces) == b"one\n"
        lines.close()
        assert list(pieces) == []
    assert gone


def test_a_log_that_is_refused(tmp_path: Path) -> None:
    with served(tmp_path / "s", {}) as view, pytest.raises(NodeError, match="nothing is served here"):
        next(view.log("default", "web", "app").pieces())
    with pytest.raises(NodeError, match="cannot reach edgecore"):
        SocketView(NodeClient(tmp_path / "none")).log("default", "web", "app")


def test_nobody_to_explain(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="cannot reach edgecore"):
        SocketView(NodeClient(tmp_path / "none")).explain("default", "web")


def test_looks_are_passed_on_until_the_end(tmp_path: Path) -> None:
    """The first one immediately."""
    seen: list[object] = []
    enough = threading.Event()

    def looked(look: object) -> None:
        seen.append(look)
        if len(seen) == 3:
            poller.stop()
            enough.set()

    poller = Poller(SocketView(NodeClient(tmp_path / "none")), 0.001, looked)
    poller.start()
    assert enough.wait(PATIENCE)
    assert seen == [Unreachable("edgecore is not running")] * 3
