"""However much one node sends, another is served in its turn; what one node sends stays in its order."""

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from beehive.clock import RealClock
from beehive.codec import encode
from beehive.delivery import DropReason
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.resource import Side
from beehive.testing import Harness
from modules.cloud.cloudhub.module import CloudHub
from modules.cloud.cloudhub.upstream_window import _HELD, HANDLED_TIMEOUT, MAX_BYTES, MAX_MESSAGES, UpstreamWindow
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE
from modules.cloud.websocket.connection import OPENING_SECONDS
from modules.cloud.websocket.fair_share import FairShare
from modules.cloud.websocket.link import FrameReceived, Link, LinkEvent, LinkOpened
from modules.cloud.websocket.message_budget import MOST_BYTES
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudhub.test_module import Cloud as CloudHubAlone
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE
from tests.support.presence import present

CLOCK = RealClock()


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 1000)), max_size=60), st.integers(0, 60))
def test_who_comes_waits_for_one_service_of_each_at_most(before: list[tuple[str, int]], served: int) -> None:
    share: FairShare[str] = FairShare()
    waiting = {who: [cost for each, cost in before if each == who] for who, _ in before}

    def serve() -> str | None:
        who = present(share.pop())
        waiting[who].pop(0)
        if waiting[who]:
            share.add(who, waiting[who][0])
        return who

    for each in waiting:
        share.add(each, waiting[each][0])
    for _time in range(min(served, len(before))):
        serve()
    waiting["new"] = [1]
    share.add("new", 1)
    ahead = list(itertools.takewhile(lambda who: who != "new", iter(serve, "nobody")))
    assert all(ahead.count(who) <= 1 for who in ahead)


def test_turns_are_in_proportion_to_their_cost() -> None:
    share: FairShare[str] = FairShare()
    costs, served = {"heavy": 1000, "light": 10}, {"heavy": 0, "light": 0}
    for each, cost in costs.items():
        share.add(each, cost)
    for _ in range(1010):
        who = present(share.pop())
        served[who] += 1
        share.add(who, costs[who])
    assert 9 <= served["heavy"] <= 11


def test_who_was_away_is_owed_nothing() -> None:
    share: FairShare[str] = FairShare()
    share.add("away", 1)
    assert share.pop() == "away"
    share.add("busy", 100)
    for _ in range(10):
        assert share.pop() == "busy"
        share.add("busy", 100)
    share.add("away", 100)
    served = []
    for _ in range(4):
        served.append(share.pop())
        share.add(str(served[-1]), 100)
    assert served.count("away") == 2


def test_who_has_gone_is_forgotten() -> None:
    share: FairShare[str] = FairShare()
    for who in ("a", "b"):
        share.add(who, 1)
    share.forget("a")
    assert "a" not in share._reached
    assert [share.pop(), share.pop()] == ["b", None]
    assert not share._reached
    assert not share._heap


def test_controllers_have_few_messages_of_a_node_and_all_in_order() -> None:
    upstream: UpstreamWindow[int] = UpstreamWindow()
    passed = [item for number in range(100) for item in upstream.offer("a", number, 10, 0.0)]
    assert passed == list(range(MAX_MESSAGES))
    assert list(upstream.offer("b", 1000, 10, 0.0)) == [1000], "whatever another has sent"
    while len(passed) < 100:
        passed += upstream.handled("a", 3, 1.0)
    assert passed == list(range(100))
    assert list(upstream.handled("a", 100, 1.0)) == []
    assert list(upstream.handled("b", 1, 1.0)) == []
    assert len(upstream) == 0, "nothing is kept of who waits for nothing"


def test_a_large_message_is_alone() -> None:
    upstream: UpstreamWindow[str] = UpstreamWindow()
    sizes = {"large": MAX_BYTES * 3, "small": 1, "large too": MAX_BYTES * 2}
    assert [list(upstream.offer("a", name, size, 0.0)) for name, size in sizes.items()] == [["large"], [], []]
    assert list(upstream.handled("a", 1, 0.0)) == ["small"]
    assert list(upstream.handled("a", 1, 0.0)) == ["large too"]


def test_silent_links_are_not_waited_for_for_ever() -> None:
    upstream: UpstreamWindow[int] = UpstreamWindow()
    for number in range(MAX_MESSAGES + 1):
        list(upstream.offer("a", number, 1, 0.0))
    assert list(upstream.expire(HANDLED_TIMEOUT / 2)) == []
    assert list(upstream.expire(HANDLED_TIMEOUT)) == [("a", MAX_MESSAGES)]


def test_a_node_whose_messages_nobody_handles_is_disconnected() -> None:
    """What is dropped without a word, a node would wait for."""
    with Harness() as bee:
        cloud = CloudHubAlone(bee)
        link = cloud.connect()
        event = bee.message("default/event/e", "insert", source="edged", group="meta")
        assert cloud._deliver is not None
        for _ in range(MAX_MESSAGES + _HELD - 1):
            cloud._deliver(FrameReceived("n1", link, event, 7))
        cloud.happens(FrameReceived("n1", link, event, 7))
        assert not link.closed
        cloud.happens(FrameReceived("n1", link, event, 7))
        assert link.closed


def test_cloudhub_hands_on_what_controllers_have_room_for() -> None:
    with Harness() as bee:
        cloud = CloudHubAlone(bee)
        links = {node: cloud.connect(node) for node in ("n1", "n2")}
        for number in range(100):
            message = bee.message(f"default/event/e{number}", "insert", source="edged", group="meta")
            cloud.happens(FrameReceived("n1", links["n1"], message, 7))
        event = bee.message("default/event/first", "insert", source="edged", group="meta")
        cloud.happens(FrameReceived("n2", links["n2"], event, 7))
        sent = [message.route.resource for message in bee.sent_to("edgecontroller")]
        came = [resource for resource in sent if "/event/" in resource]
        assert came[:MAX_MESSAGES] == [f"node/n1/default/event/e{number}" for number in range(MAX_MESSAGES)]
        assert came[MAX_MESSAGES:] == ["node/n2/default/event/first"]
        assert links["n1"].handled_bytes == [7] * MAX_MESSAGES, "so the server holds back the rest"
        bee.send(CloudHub.name, bee.message(HANDLED_RESOURCE, HANDLED, {"n1": 2, "gone": 5}, source="edgecontroller"))
        assert len(links["n1"].handled_bytes) == MAX_MESSAGES + 2


class Deaf(Module):
    """An edgecontroller that takes events only, and says nothing of them."""

    name = "edgecontroller"
    group = "edgecontroller"
    side = Side.CLOUD

    @handles("event")
    @handles(None, "connected")
    def take(self, message: Message) -> None:
        """Nothing comes of it."""


def test_what_no_controller_takes_is_not_waited_for() -> None:
    """A node may send what no module here takes, as often as it likes."""
    with Harness() as bee:
        bee.add(Deaf)
        cloud = CloudHubAlone(bee)
        link = cloud.connect()
        for number in range(3 * MAX_MESSAGES):
            lease = bee.message(f"kube-node-lease/lease/l{number}", "insert", source="edged", group="meta")
            cloud.happens(FrameReceived("n1", link, lease, 7))
        assert bee.hive.dead_letters.counts[DropReason.NO_HANDLER] == 3 * MAX_MESSAGES
        event = bee.message("default/event/e", "insert", source="edged", group="meta")
        cloud.happens(FrameReceived("n1", link, event, 9))
        assert link.handled_bytes == [7] * 3 * MAX_MESSAGES + [9]


class Served:
    """The websocket server alone; what it hands on is kept."""

    most_message_bytes = MOST_BYTES

    def __init__(self) -> None:
        self.came: list[tuple[str, Any]] = []
        self.links: dict[str, Link] = {}
        self.full = threading.Event()
        self.handles = True
        self.looks = 0
        """How often the server has looked whether the inboxes are full."""
        self.clock = StandingClock()
        settings = WebsocketSettings(
            address="127.0.0.1", port=0, node_limit=10, max_frame_bytes=4 * 1024 * 1024, write_timeout=PATIENCE,
            most_message_bytes=self.most_message_bytes,
        )  # fmt: skip
        self.server = WebsocketServer(settings, self._deliver, self.clock, is_full=self._is_full)
        self.server.start()

    def _is_full(self) -> bool:
        self.looks += 1
        return self.full.is_set()

    def _deliver(self, event: LinkEvent) -> None:
        match event:
            case LinkOpened(node=node, link=link):
                self.links[node] = link
            case FrameReceived(node=node, link=link, message=message, size=size):
                self.came.append((node, message.content_as(Any)))
                if self.handles:
                    link.handled(size)

    @contextmanager
    def node(self, name: str, compression: str | None = "deflate") -> Iterator[ClientConnection]:
        """A connected node; its socket holds little that the server has not read."""
        headers = {"Node_id": name, "Project_id": "e632", "Connectionuse": "msg"}
        host, port = self.server.address
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        ours.connect((host, port))
        with connect(
            f"ws://{host}:{port}/e632/{name}/events", sock=ours, additional_headers=headers, compression=compression,
            open_timeout=PATIENCE, ping_interval=None, close_timeout=1,
        ) as made:  # fmt: skip
            wait_until(lambda: name in self.links, f"{name} is connected")
            yield made

    def unread(self, node: str) -> int:
        """Messages of a node that have come and wait for their turn."""
        connections = list(self.server._connections.values())
        return sum(len(connection.unread) for connection in connections if connection.node == node)

    def of(self, node: str) -> list[Any]:
        return [number for whose, number in self.came if whose == node]


@pytest.fixture
def served() -> Iterator[Served]:
    started = Served()
    yield started
    started.server.stop()


def frame(number: int, operation: str = "insert", size: int = 0) -> bytes:
    resource = f"default/pod/{'x' * size}"
    return encode(Message.new(CLOCK, source="edged", resource=resource, operation=operation, content=number))


def test_the_hundredth_frame_of_one_node_does_not_wait_before_the_first_of_another(served: Served) -> None:
    with served.node("greedy") as greedy, served.node("modest") as modest:
        served.full.set()
        for number in range(60):
            greedy.send(frame(number))
        modest.send(frame(0))
        wait_until(lambda: served.unread("greedy") == 60 and served.unread("modest") == 1, "all have come")
        served.full.clear()
        modest.ping().wait(PATIENCE)
        wait_until(lambda: len(served.came) == 61, "all are handed on")
        assert served.came.index(("modest", 0)) <= 1
        assert served.of("greedy") == list(range(60)), "and each node's stay in order"


def test_who_sends_more_than_is_handled_is_held_back_and_nobody_else(served: Served) -> None:
    served.handles = False
    with served.node("greedy", compression=None) as greedy, served.node("modest") as modest:

        def send_all() -> None:
            for number in range(3000):
                greedy.send(frame(number, size=900))

        sender = threading.Thread(target=send_all)
        sender.start()
        wait_until(lambda: served.unread("greedy") >= 32, "its messages wait: 64 KiB of them, whichever way they come")
        modest.send(frame(7))
        wait_until(lambda: served.of("modest") == [7], "the other is served")
        assert served.of("greedy") == list(range(16))
        assert served.unread("greedy") < 1000, "the rest waits at the node"
        assert sender.is_alive()
        served.handles = True
        for _ in range(16):
            served.links["greedy"].handled(1000)
        sender.join(PATIENCE)
        wait_until(lambda: len(served.of("greedy")) == 3000, "all has come")
        assert served.of("greedy") == list(range(3000))


def test_the_time_to_open_stands_while_the_inboxes_are_full(served: Served) -> None:
    """And begins again when they have room."""
    served.full.set()
    with socket.create_connection(served.server.address, PATIENCE) as client:
        client.sendall(b"GET")
        wait_until(lambda: bool(served.server._unopened), "it waits")
        served.clock.go(2 * OPENING_SECONDS)
        looks = served.looks
        wait_until(lambda: served.looks > looks + 2, "the server has looked for overdue ones")
        assert served.server._connections
        served.full.clear()
        wait_until(lambda: not served.server._unopened, "it is read")
        served.clock.go(2 * OPENING_SECONDS)
        assert client.recv(1) == b""


def test_a_keepalive_passes_what_stands_before_it(served: Served) -> None:
    """Or a node would be disconnected because edgecontroller is slow."""
    served.handles = False
    with served.node("n1") as node:
        for number in range(20):
            node.send(frame(number))
        node.send(frame(-1, "keepalive"))
        node.send(frame(20))
        wait_until(lambda: -1 in served.of("n1"), "the keepalive is there")
        assert 19 not in served.of("n1")
        node.send(frame(-2, "keepalive"))
        node.ping().wait(PATIENCE)
        wait_until(lambda: served.unread("n1") >= 5, "the rest waits")
        assert -2 not in served.of("n1"), "of many, one a second counts"


def test_what_only_speaks_of_keepalives_keeps_its_place(served: Served) -> None:
    served.handles = False
    with served.node("n1") as node:
        for number in range(18):
            node.send(frame(number))
        node.send(
            encode(Message.new(CLOCK, source="edged", resource="a/event/b", operation="insert", content="keepalive"))
        )
        node.ping().wait(PATIENCE)
        wait_until(lambda: served.unread("n1") == 3, "it waits")


def test_messages_that_were_read_are_handed_on_although_their_connection_has_ended(served: Served) -> None:
    """The node knows from the answered ping that it has been read, and will not send it again."""
    with served.node("n1") as node:
        served.full.set()
        for number in range(20):
            node.send(frame(number))
        assert node.ping().wait(PATIENCE)
    wait_until(lambda: served.of("n1") == list(range(20)), "all is handed on")


@pytest.mark.parametrize("payload", [b"", b"x"])
def test_an_endless_message_of_fragments_ends_the_connection(served: Served, payload: bytes) -> None:
    with served.node("n1") as node:
        node.socket.sendall(Frame(Opcode.TEXT, b"{", fin=False).serialize(mask=True))
        piece = Frame(Opcode.CONT, payload, fin=False).serialize(mask=True) * 1000
        with pytest.raises((ConnectionClosed, OSError)):
            for _ in range(100):
                node.socket.sendall(piece)
            node.recv(PATIENCE)
    wait_until(lambda: not served.server._connections, "it has ended")


def test_a_message_of_many_fragments_is_one(served: Served) -> None:
    with served.node("n1") as node:
        text = frame(5).decode()
        node.send(iter(text))
        wait_until(lambda: served.of("n1") == [5], "it has come")


def test_messages_that_are_small_only_on_the_wire_are_refused(served: Served) -> None:
    """Sixteen mebibytes of zeros are sixteen kilobytes; the limit is of what comes out."""
    with served.node("n1") as node:
        assert node.response is not None
        assert "permessage-deflate" in node.response.headers["Sec-WebSocket-Extensions"]
        node.send(frame(1, size=1000))
        wait_until(lambda: served.of("n1") == [1], "one within the limit is taken")
        node.send(b"0" * (5 * 1024 * 1024), text=True)
        with pytest.raises(ConnectionClosed) as ended:
            node.recv(PATIENCE)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1009
