"""cloudhub alone on a hive, in virtual time, with links that are lists."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from beehive.codec import decode
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName
from beehive.testing import Harness
from modules.cloud.cloudhub import upstream_window
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.cloudhub.node_session import NodeSession
from modules.cloud.cloudhub.upstream_window import MAX_MESSAGES
from modules.cloud.messages import (
    ACKNOWLEDGED,
    NODES,
    NODES_RESOURCE,
    Acknowledged,
    ConnectEvent,
    NodeConnection,
    SessionTakenOver,
)
from modules.cloud.refusals import Refusals
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkEvent, LinkOpened

CA = "-----BEGIN CERTIFICATE-----\n"


class ListLink:
    """A link whose frames are kept."""

    def __init__(self) -> None:
        self.frames: list[Message] = []
        self.closed = False
        self.is_behind = self.is_held_back = False
        self.handled_bytes: list[int] = []

    def handled(self, size: int) -> None:
        self.handled_bytes.append(size)

    def send(self, frame: bytes) -> None:
        if self.closed:
            raise ConnectionError("closed")
        self.frames.append(decode(frame))

    def close(self) -> None:
        self.closed = True

    def take(self) -> list[Message]:
        frames, self.frames = self.frames, []
        return frames


class Cloud:
    """cloudhub and what a test does to it."""

    def __init__(self, bee: Harness) -> None:
        self.bee = bee
        self._deliver: Callable[[LinkEvent], None] | None = None
        self.sessions: dict[str, NodeSession] = {}
        self.refusals, self.counters = Refusals(bee.clock), CloudHubCounters()
        self.starts: list[bool] = []
        """That the transport was started, and stopped."""
        settings = CloudHubSettings(ca_pem=CA)
        bee.add(CloudHub, settings, self._make_transport, self.sessions, self.refusals, self.counters)
        bee.start()

    def _make_transport(self, deliver: Callable[[LinkEvent], None]) -> "Cloud":
        self._deliver = deliver
        return self

    def start(self) -> None:
        """As a transport."""
        self.starts.append(True)

    def stop(self) -> None:
        """As a transport."""
        self.starts.append(False)

    def happens(self, event: LinkEvent) -> None:
        assert self._deliver is not None
        self._deliver(event)
        self.bee.settle()

    def connect(self, node: str = "n1") -> ListLink:
        link = ListLink()
        self.happens(LinkOpened(node, link))
        return link

    def says(self, link: ListLink, message: Message, node: str = "n1") -> None:
        self.happens(FrameReceived(node, link, message))

    def keepalive(self, link: ListLink) -> None:
        self.says(link, self.bee.message("node", "keepalive", "ping", source="websocket", group="resource"))

    def acknowledge(self, link: ListLink, message: Message) -> None:
        self.says(link, message.reply(self.bee.clock))

    def sends(self, name: str = "web", version: str = "7", operation: str = "insert", node: str = "n1") -> Message:
        return self.controller(
            f"node/{node}/default/pod/{name}", operation, {"metadata": {"uid": f"uid-{name}"}}, version
        )

    def controller(self, resource: str, operation: str, content: Any = None, version: str = "") -> Message:
        message = self.bee.message(
            resource, operation, content, source="edgecontroller", group="resource", resourceversion=version
        )
        self.bee.send(CloudHub.name, message)
        return message

    def events(self) -> list[str]:
        messages = self.bee.sent_to("edgecontroller")
        return [f"{m.route.operation} {m.route.resource}" for m in messages if m.route.source == "cloudhub"]

    def acknowledged(self) -> list[list[tuple[str, str, int, bool]]]:
        """What edgecontroller was told each time."""
        told = [m for m in self.bee.sent_to("edgecontroller") if m.route.operation == ACKNOWLEDGED]
        return [[(a.node, a.uid, a.version, a.is_delete) for a in m.content_as(list[Acknowledged])] for m in told]


def test_controllers_get_connections(link: ListLink, cloud: Cloud) -> None:
    cloud.happens(LinkClosed("n1", link))
    assert cloud.events() == ["connected node/n1", "disconnected node/n1"]


def test_a_message_reaches_its_node_without_the_node_in_its_resource(cloud: Cloud) -> None:
    link, other = cloud.connect(), cloud.connect("n2")
    sent = cloud.sends()
    (received,) = link.take()
    assert received.route.resource == "default/pod/web"
    assert (received.id, received.header.resourceversion) == (sent.id, "7")
    assert other.take() == []


def test_it_is_sent_again_every_five_seconds_until_it_is_acknowledged(link: ListLink, cloud: Cloud) -> None:
    sent = cloud.sends()
    cloud.bee.run_for(11)
    assert [message.id for message in link.take()] == [sent.id] * 3
    cloud.acknowledge(link, sent)
    cloud.bee.run_for(11)
    assert link.take() == []


def test_nothing_is_sent_again_while_many_messages_wait_here(
    link: ListLink, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its acknowledgement may be among them."""
    monkeypatch.setattr("modules.cloud.cloudhub.module._BUSY", -1)
    sent = cloud.sends()
    cloud.bee.run_for(11)
    assert [message.id for message in link.take()] == [sent.id]


def test_nothing_is_sent_again_while_it_has_not_left(link: ListLink, cloud: Cloud) -> None:
    """A slow link would carry the same objects again and again. What is new goes all the same."""
    first = cloud.sends()
    link.is_behind = True
    cloud.bee.run_for(11)
    second = cloud.sends("new")
    assert [message.id for message in link.take()] == [first.id, second.id]
    link.is_behind = False
    cloud.bee.run_for(1.5)
    assert [message.id for message in link.take()] == [first.id]


def test_an_error_of_the_edge_is_no_acknowledgement(link: ListLink, cloud: Cloud) -> None:
    sent = cloud.sends()
    cloud.says(link, sent.error(cloud.bee.clock, "no space left on device"))
    cloud.bee.run_for(6)
    assert len(link.take()) == 2


def test_an_answer_is_sent_once(link: ListLink, cloud: Cloud) -> None:
    cloud.controller("node/n1/default/podpatch/web", "response", {"Object": {}, "Err": None})
    cloud.bee.run_for(11)
    assert len(link.take()) == 1


def test_messages_for_a_node_without_a_connection_are_left_to_edgecontroller(cloud: Cloud) -> None:
    cloud.sends()
    link = cloud.connect()
    cloud.bee.run_for(6)
    assert link.take() == []
    assert len(cloud.bee.hive.dead_letters) == 0


def test_edgecontroller_learns_the_versions_that_a_node_has_stored(cloud: Cloud) -> None:
    link, other = cloud.connect(), cloud.connect("n2")
    cloud.acknowledge(link, cloud.sends())
    cloud.acknowledge(link, cloud.sends("old", "8", operation="delete"))
    cloud.says(other, cloud.sends(node="n2").reply(cloud.bee.clock), node="n2")
    cloud.bee.run_for(CloudHubSettings().ack_delay)
    assert cloud.acknowledged() == [
        [("n1", "uid-web", 7, False), ("n1", "uid-old", 8, True), ("n2", "uid-web", 7, False)]
    ]


def test_it_learns_of_many_at_once(link: ListLink, cloud: Cloud) -> None:
    for number in range(512):
        cloud.acknowledge(link, cloud.sends(f"p{number}"))
    assert [len(each) for each in cloud.acknowledged()] == [512]


def test_it_gets_that_before_the_end_of_the_connection(link: ListLink, cloud: Cloud) -> None:
    cloud.acknowledge(link, cloud.sends())
    cloud.happens(LinkClosed("n1", link))
    assert cloud.events() == ["connected node/n1", "acknowledged cloudhub/acknowledged", "disconnected node/n1"]


def test_it_gets_a_repeated_message_again(link: ListLink, cloud: Cloud) -> None:
    """An acknowledgement that edgecontroller did not take down is so not lost."""
    cloud.acknowledge(link, cloud.sends())
    cloud.bee.run_for(CloudHubSettings().ack_delay)
    cloud.sends()
    cloud.bee.run_for(CloudHubSettings().ack_delay)
    assert len(link.take()) == 1
    assert cloud.acknowledged() == [[("n1", "uid-web", 7, False)]] * 2


def test_acknowledgements_of_an_earlier_connection_are_not_remembered(link: ListLink, cloud: Cloud) -> None:
    """The node may have been another cloudcore's meanwhile: edgecontroller knows what it has."""
    cloud.acknowledge(link, cloud.sends())
    again = cloud.connect()
    cloud.sends()
    assert len(again.take()) == 1


def test_a_node_that_went_to_another_cloudcore_is_let_go(cloud: Cloud) -> None:
    first = cloud.connect()
    (event,) = cloud.bee.sent_to("edgecontroller")
    second = cloud.connect()
    taken = SessionTakenOver(event.content_as(ConnectEvent).connection)
    cloud.controller("node/n1", "disconnected", taken)
    assert not second.closed, "it has come back since"
    (newest,) = [m for m in cloud.bee.sent_to("edgecontroller")[2:] if m.route.operation == "connected"]
    cloud.controller("node/n1", "disconnected", SessionTakenOver(newest.content_as(ConnectEvent).connection))
    assert first.closed
    assert second.closed


def test_a_second_connection_replaces_the_first(cloud: Cloud) -> None:
    first = cloud.connect()
    second = cloud.connect()
    assert first.closed
    sent = cloud.sends()
    assert [message.id for message in second.take()] == [sent.id]
    cloud.happens(LinkClosed("n1", first))
    assert not second.closed, "the end of the old connection is not the end of the new"
    assert cloud.events() == ["connected node/n1", "disconnected node/n1", "connected node/n1"]


def test_two_machines_of_one_name_are_reported(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    """Once for some connections; a node that lost its link now and then is no news."""
    for _ in range(4):
        cloud.connect()
        cloud.bee.run_for(20.0)
    assert "two machines" not in caplog.text
    for _ in range(6):
        cloud.connect()
    (told,) = [record.getMessage() for record in caplog.records if "two machines" in record.getMessage()]
    assert told.startswith("node n1 connects again and again")
    assert "hostnameOverride" in told


def test_only_keepalives_keep_a_session(link: ListLink, cloud: Cloud) -> None:
    for _ in range(4):
        cloud.bee.run_for(15)
        cloud.keepalive(link)
    assert not link.closed
    for _ in range(3):
        cloud.bee.run_for(11)
        cloud.says(link, cloud.bee.message("default/configmap/c", "query", source="edged"))
    assert link.closed


def test_requests_go_to_edgecontroller_with_the_node_in_the_resource(link: ListLink, cloud: Cloud) -> None:
    cloud.bee.forget()
    cloud.says(link, cloud.bee.message("default/podpatch/web", "patch", "{}", source="edged", group="meta"))
    (request,) = cloud.bee.sent_to("edgecontroller")
    assert request.route.resource == "node/n1/default/podpatch/web"


def test_the_ca_certificate_is_answered_immediately(link: ListLink, cloud: Cloud) -> None:
    question = cloud.bee.message("k8s/ca.crt", "query", source="metamanager", group="resource")
    cloud.says(link, question)
    (answer,) = link.take()
    assert (answer.parent_id, answer.content_as(str)) == (question.id, CA)
    assert (answer.route.source, answer.route.resource) == ("cloudhub", "k8s/ca.crt")


@pytest.mark.parametrize(
    ("resource", "operation", "content"),
    [
        ("node/n1/default/node/n1", "response", "OK"),
        ("node/n1/default/node/n1", "error", "not now"),
        ("node/n1/default/lease/n1", "delete", None),
    ],
)
def test_only_the_deletion_of_a_node_ends_its_connection(
    link: ListLink, cloud: Cloud, resource: str, operation: str, content: Any
) -> None:
    """Other messages about the node, and other deletions, go to the node."""
    cloud.controller(resource, operation, content)
    assert not link.closed
    assert [message.route.operation for message in link.take()] == [operation]


def test_a_deleted_node_is_disconnected(link: ListLink, cloud: Cloud) -> None:
    cloud.controller("node/n1/null/node/n1", "delete", {"metadata": {"name": "n1"}})
    assert link.closed
    assert link.take() == []


def test_a_message_of_a_connection_that_was_replaced_is_ignored(cloud: Cloud) -> None:
    first = cloud.connect()
    second = cloud.connect()
    cloud.bee.forget()
    for link in (first, second):
        asked = cloud.bee.message("default/configmap/c", "query", source="edged", group="meta")
        cloud.happens(FrameReceived("n1", link, asked, 10))
        assert len(cloud.bee.sent_to("edgecontroller")) == (link is second)


def test_a_node_with_too_many_messages_that_wait_for_controllers_is_let_go(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_window, "_HELD", 2)
    link = cloud.connect()
    closed = []
    for number in range(MAX_MESSAGES + 3):
        asked = cloud.bee.message(f"default/configmap/c{number}", "query", source="edged", group="meta")
        cloud.happens(FrameReceived("n1", link, asked, 10))
        closed.append(link.closed)
    assert closed == [*([False] * (MAX_MESSAGES + 2)), True]


def test_a_message_that_no_controller_has_a_handler_for_holds_up_no_other() -> None:
    """Nobody would report it as handled."""

    class Deaf(Module):
        name = ModuleName.EDGECONTROLLER
        group = Group.EDGECONTROLLER

    with Harness() as bee:
        bee.add(Deaf)
        cloud = Cloud(bee)
        link = cloud.connect()
        for number in range(MAX_MESSAGES + 1):
            asked = bee.message(f"default/configmap/c{number}", "query", source="edged", group="meta")
            cloud.happens(FrameReceived("n1", link, asked, 10))
        assert len(link.handled_bytes) == MAX_MESSAGES + 1


def test_an_error_repeats_little_of_what_the_node_has_sent(link: ListLink, cloud: Cloud) -> None:
    cloud.says(link, cloud.bee.message("default/" + "x" * 10_000, "query", source="edged", group="meta"))
    (answer,) = link.take()
    assert answer.route.operation == "error"
    assert len(answer.route.resource) < 2000


def test_a_message_that_cannot_be_read_is_answered_and_handled(link: ListLink, cloud: Cloud) -> None:
    """Else the node's next messages would wait for it."""
    asked = cloud.bee.message("default/configmap/c", "query", source="edged", group="meta")
    cloud.happens(FrameReceived("n1", link, asked, 10, "it is too long"))
    assert [(each.route.operation, each.parent_id) for each in link.take()] == [("error", asked.id)]
    assert link.handled_bytes == [10]
    assert asked.id not in [each.id for each in cloud.bee.sent_to("edgecontroller")]


def test_a_restarted_module_keeps_nothing_for_the_connections_that_it_had(cloud: Cloud) -> None:
    """What is for a node that has not come again is edgecontroller's to send again; here it would pile up."""
    cloud.bee.expect_failures()
    cloud.connect()
    cloud.controller("node/n1", "disconnected", "what nobody can read")
    cloud.bee.run_for(30)
    assert cloud.bee.hive.restarts() == {CloudHub.name: 1}
    cloud.sends()
    assert cloud.sessions == {}
    link = cloud.connect()
    cloud.sends()
    assert len(link.take()) == 1


def test_what_no_module_here_wants_harms_nothing(link: ListLink, cloud: Cloud) -> None:
    for resource, operation, source in [
        ("membership/detail", "get", "twin"),
        ("null", "null", "metaserver"),
        ("a/topic", "upload", "bus"),
        ("default/pod/p", "update", "edgecontroller"),
    ]:
        cloud.says(link, cloud.bee.message(resource, operation, source=source, group="user"))
    cloud.controller("nonsense", "insert")
    assert cloud.bee.hive.restarts() == {CloudHub.name: 0}
    assert not link.closed


def test_the_state_of_a_connection_has_ages_what_waits_and_the_last_error(cloud: Cloud) -> None:
    cloud.bee.run_for(1000)
    link = cloud.connect()
    cloud.bee.run_for(2)
    cloud.keepalive(link)
    cloud.sends()
    cloud.bee.run_for(1)
    cloud.says(link, cloud.bee.message("default/pod/w\x1b[2J", "error", "no room", source="edged", group="resource"))
    asked = cloud.bee.message(NODES_RESOURCE, NODES, source="control")
    (one,) = cloud.bee.ask(CloudHub.name, asked).content_as(list[NodeConnection])
    assert (one.node, one.connected_seconds, one.keepalive_seconds) == ("n1", 3.0, 1.0)
    assert (one.waiting, one.unacknowledged, one.oldest_seconds, one.is_behind) == (0, 1, 1.0, False)
    assert (one.last_error, one.last_error_seconds) == ('default/pod/w\\x1b[2J: "no room"', 0.0)


@pytest.mark.parametrize(
    ("sent", "ahead"),
    [(lambda now: now, 0.0), (lambda now: now - 600_000, -600.0), (lambda now: now + 90_000, 90.0)]
    + [(lambda _, wrong=wrong: wrong, 0.0) for wrong in (0, -5, 2**60)],
)
def test_a_keepalive_shows_how_far_a_clock_is_off(cloud: Cloud, sent: Callable[[int], int], ahead: float) -> None:
    cloud.bee.run_for(20_000)
    link = cloud.connect()
    keepalive = cloud.bee.message("node", "keepalive", "ping", source="websocket", group="resource")
    header = replace(keepalive.header, timestamp=sent(cloud.bee.clock.now_ms()))
    cloud.says(link, replace(keepalive, header=header))
    (one,) = cloud.bee.ask(CloudHub.name, cloud.bee.message(NODES_RESOURCE, NODES)).content_as(list[NodeConnection])
    assert one.clock_ahead_seconds == pytest.approx(ahead, abs=0.01)


def test_an_acknowledged_message_counts_no_longer(link: ListLink, cloud: Cloud) -> None:
    cloud.sends()
    (sent,) = link.take()
    cloud.acknowledge(link, sent)
    (one,) = cloud.bee.ask(CloudHub.name, cloud.bee.message(NODES_RESOURCE, NODES)).content_as(list[NodeConnection])
    assert (one.unacknowledged, one.oldest_seconds) == (0, 0.0)
