"""More nodes than the controllers keep up with: nothing of them is lost, and none counts as silent."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pykka
import pytest

from beehive.errors import InboxFullError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group
from beehive.resource import Side
from beehive.testing import Harness
from modules.cloud.cloudhub.dispatcher import AT_ONCE, Dispatcher
from modules.cloud.cloudhub.module import CloudHub
from modules.cloud.websocket.connection import OPENING_SECONDS
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkOpened
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudhub.test_module import Cloud, ListLink
from tests.modules.cloud.websocket.test_fairness import Served, frame
from tests.support.patience import PATIENCE

ROOM = "modules.cloud.cloudhub.messages_without_room._ROOM"


@pytest.fixture
def served() -> Iterator[Served]:
    started = Served()
    yield started
    started.server.stop()


class UnreadLink(ListLink):
    """A link whose socket is not read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held_back = True


def test_nothing_but_keepalives_passes_full_inboxes_and_all_does_afterwards(served: Served) -> None:
    with served.node("n1") as node:
        served.full.set()
        for number in range(200):
            node.send(frame(number))
        wait_until(lambda: served.unread("n1") >= 64, "the socket is read no further")
        served.clock.go(1.2)
        looks = served.looks
        wait_until(lambda: served.looks > looks + 20, "the server has looked for room often enough")
        assert served.came == []
        assert served.unread("n1") <= 200
        assert served.links["n1"].is_held_back
        served.full.clear()
        node.ping().wait(PATIENCE)
        wait_until(lambda: len(served.came) == 200, "all have come")
        assert served.of("n1") == list(range(200))
        wait_until(lambda: not served.links["n1"].is_held_back, "it is read again")


def test_a_node_that_connects_meanwhile_is_let_in_when_there_is_room(served: Served) -> None:
    """Its opening is news for edgecontroller, too; its time for the upgrade starts over."""

    def make_room() -> None:
        wait_until(lambda: bool(served.server._unopened), "its request waits")
        served.clock.go(OPENING_SECONDS + 1.0)
        looks = served.looks
        wait_until(lambda: served.looks > looks + 20, "the server has looked for room often enough")
        served.full.clear()

    served.full.set()
    room = threading.Thread(target=make_room)
    room.start()
    with served.node("late") as node:
        assert not served.full.is_set()
        node.send(frame(1))
        wait_until(lambda: served.of("late") == [1], "it is served")
    room.join()


class Slow(Module):
    """An edgecontroller that keeps what it gets of nodes."""

    name = "edgecontroller"
    group = "edgecontroller"
    side = Side.CLOUD

    def __init__(self, came: list[str]) -> None:
        super().__init__()
        self._came = came

    @handles("event")
    def take(self, message: Message) -> None:
        """Keep it."""
        self._came.append(message.route.resource)

    @handles()
    def pass_over(self, message: Message) -> None:
        """The events of connections."""


def test_messages_wait_in_their_order_for_room_in_a_controllers_inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a full inbox they would be dropped after 5 s, registrations among them."""
    came: list[str] = []
    with Harness() as bee:
        bee.add(Slow, came)
        cloud = Cloud(bee)
        links = {node: cloud.connect(node) for node in ("n1", "n2")}
        monkeypatch.setattr(ROOM, 0)
        for number in range(6):
            node = f"n{number % 2 + 1}"
            message = bee.message(f"default/event/e{number}", "insert", source="edged", group="meta")
            cloud.happens(FrameReceived(node, links[node], message, 7))
        bee.run_for(8.0)
        assert came == []
        assert [link.handled_bytes for link in links.values()] == [[], []], "so the server reads no more of them"
        monkeypatch.setattr(ROOM, 1)
        bee.run_for(1.0)
        assert came == [f"node/n{number % 2 + 1}/default/event/e{number}" for number in range(6)]
        assert [link.handled_bytes for link in links.values()] == [[7, 7, 7], [7, 7, 7]]
        assert not bee.hive.dead_letters.counts


@pytest.mark.parametrize(("full", "is_full"), [("", False), ("cloudhub", True), ("edgecontroller", True)])
def test_sockets_are_read_no_further_while_many_messages_wait_in_an_inbox(full: str, *, is_full: bool) -> None:
    def slot(name: str) -> SimpleNamespace:
        return SimpleNamespace(inbox=SimpleNamespace(depth=lambda: 513 if name == full else 512))

    cloudhub = SimpleNamespace(actor_class=CloudHub)
    hive = SimpleNamespace(members=lambda group: [group], slot=slot)
    assert Dispatcher(cast("Any", cloudhub), cast("Any", hive)).is_full() is is_full


@pytest.mark.parametrize("error", [pykka.ActorDeadError("ended"), InboxFullError("full"), None])
def test_an_event_that_cloudhub_does_not_take_ends_its_connection(error: Exception | None) -> None:
    """Its node connects again, and asks again. Later events are taken as soon as there is room."""
    link, tell = ListLink(), Mock(side_effect=error)
    cloudhub = SimpleNamespace(actor_class=CloudHub, tell=tell)
    hive = SimpleNamespace(members=lambda _: [], slot=lambda _: SimpleNamespace(inbox=None))
    dispatcher = Dispatcher(cast("Any", cloudhub), cast("Any", hive))
    dispatcher(LinkOpened("n1", link))
    assert link.closed is (error is not None)
    tell.assert_called_once_with(dispatcher)
    if error is None:
        assert dispatcher.next_events() == [LinkOpened("n1", link)]
    tell.side_effect = None
    dispatcher(later := LinkOpened("n2", ListLink()))
    assert (tell.call_count, dispatcher.next_events()) == (2, [later])


def test_events_that_wait_share_an_item_in_order() -> None:
    """After some of them it is the turn of what has come into the inbox meanwhile."""
    tell = Mock()
    cloudhub = SimpleNamespace(actor_class=CloudHub, tell=tell)
    hive = SimpleNamespace(members=lambda _: [], slot=lambda _: SimpleNamespace(inbox=SimpleNamespace(depth=lambda: 0)))
    dispatcher = Dispatcher(cast("Any", cloudhub), cast("Any", hive))
    links = [ListLink() for _ in range(AT_ONCE + 1)]
    events = [LinkOpened(f"n{number}", link) for number, link in enumerate(links)]
    for event in events:
        dispatcher(event)
    assert tell.call_count == 1
    assert dispatcher.next_events() == events[:AT_ONCE]
    assert tell.call_count == 2
    assert dispatcher.next_events() == events[AT_ONCE:]
    dispatcher(events[0])
    assert tell.call_count == 3
    assert dispatcher.next_events() == events[:1]
    for event in events * 2:
        dispatcher(event)
    tell.side_effect = InboxFullError("full")
    assert dispatcher.next_events() == events[:AT_ONCE]
    assert all(link.closed for link in links), "those that nobody takes"
    assert dispatcher.next_events() == []


def test_inboxes_are_full_while_many_events_wait() -> None:
    cloudhub = SimpleNamespace(actor_class=CloudHub, tell=Mock())
    hive = SimpleNamespace(members=lambda _: [], slot=lambda _: SimpleNamespace(inbox=SimpleNamespace(depth=lambda: 1)))
    dispatcher = Dispatcher(cast("Any", cloudhub), cast("Any", hive))
    for number in range(513):
        assert not dispatcher.is_full()
        dispatcher(LinkOpened(f"n{number}", ListLink()))
    assert dispatcher.is_full()


def test_a_node_that_is_not_read_is_not_silent(cloud: Cloud) -> None:
    """Its keepalives are in the socket."""
    unread, read = UnreadLink(), ListLink()
    cloud.happens(LinkOpened("n1", unread))
    cloud.happens(LinkOpened("n2", read))
    cloud.bee.run_for(100.0)
    assert (unread.closed, read.closed) == (False, True)
    unread.is_held_back = False
    cloud.bee.run_for(14.0)
    assert not unread.closed, "it has time to say that it lives"
    cloud.bee.run_for(40.0)
    assert unread.closed


def test_all_connections_are_checked_in_portions(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.cloudhub.connection_checks._PORTION", 2)
    links = [cloud.connect(f"n{number}") for number in range(5)]
    cloud.sends(node="n4")
    cloud.bee.run_for(6.0)
    assert len(links[4].frames) == 2, "what is not acknowledged is sent again"
    cloud.bee.run_for(30.0)
    assert all(link.closed for link in links)
    assert CloudHub.name not in cloud.bee.hive.dead_letters.counts


def test_nothing_is_sent_again_to_a_node_whose_acknowledgements_may_wait(cloud: Cloud) -> None:
    """Or a crowd that is slow would get, and acknowledge, all its objects again every 5 s."""
    unread = UnreadLink()
    cloud.happens(LinkOpened("n1", unread))
    cloud.sends()
    cloud.bee.run_for(20.0)
    assert len(unread.frames) == 1
    unread.is_held_back = False
    cloud.bee.run_for(2.0)
    assert len(unread.frames) == 2


@pytest.mark.parametrize(("waiting", "is_let_in"), [(2048, True), (2049, False)])
@pytest.mark.parametrize("full", [Group.EDGECONTROLLER, Group.DEVICECONTROLLER, Group.ROUTER, Group.TASKMANAGER])
def test_no_node_connects_whose_connection_a_module_may_not_learn_of(
    full: str, waiting: int, *, is_let_in: bool
) -> None:
    """It connects again. The ends of connections still fit in."""

    def slot(name: str) -> SimpleNamespace:
        return SimpleNamespace(inbox=SimpleNamespace(depth=lambda: waiting if name == full else 0))

    cloudhub = SimpleNamespace(actor_class=CloudHub, tell=Mock())
    hive = SimpleNamespace(members=lambda group: [group], slot=slot)
    dispatcher = Dispatcher(cast("Any", cloudhub), cast("Any", hive))
    link = ListLink()
    dispatcher(LinkOpened("n1", link))
    dispatcher(closed := LinkClosed("n2", ListLink()))
    assert link.closed is not is_let_in
    assert dispatcher.next_events()[-1] == closed
