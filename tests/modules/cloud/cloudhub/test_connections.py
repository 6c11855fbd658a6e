"""What cloudhub does with connections, with what passes over them, and with what it may not pass on."""

from typing import Any

import pytest

from beehive.errors import RequestError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName
from beehive.resource import Side
from beehive.testing import Harness
from modules.cloud.cloudhub import node_session
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.cloudhub.replaced_connections import MANY, REMEMBERED
from modules.cloud.cloudhub.upstream_window import HANDLED_TIMEOUT, MAX_MESSAGES
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE, NODES, NODES_RESOURCE, ConnectEvent, NodeConnection
from modules.cloud.object_writes import JOURNAL
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkOpened
from tests.modules.cloud.cloudhub.test_module import Cloud, ListLink


def states(cloud: Cloud) -> list[NodeConnection]:
    """What the owner sees of the connections."""
    return cloud.bee.ask(CloudHub.name, cloud.bee.message(NODES_RESOURCE, NODES)).content_as(list[NodeConnection])


def asks(cloud: Cloud, link: ListLink, first: int, last: int) -> None:
    """Let n1 ask for ConfigMaps with these numbers."""
    for number in range(first, last):
        asked = cloud.bee.message(f"default/configmap/c{number}", "query", source="edged", group="meta")
        cloud.happens(FrameReceived("n1", link, asked, 10))


def asked(cloud: Cloud) -> list[int]:
    """The numbers that edgecontroller has got."""
    resources = [m.route.resource.rpartition("/")[2] for m in cloud.bee.sent_to("edgecontroller")]
    return [int(name[1:]) for name in resources if name.startswith("c")]


def handled(cloud: Cloud, number: int) -> None:
    """Let edgecontroller report handled messages of n1."""
    cloud.bee.send("cloudhub", cloud.bee.message(HANDLED_RESOURCE, HANDLED, {"n1": number}, source="edgecontroller"))


def test_a_handled_message_lets_the_next_one_of_its_node_go_on(link: ListLink, cloud: Cloud) -> None:
    """Nobody answers for the ones that go on then, either: after a while they count as handled."""
    asks(cloud, link, 0, 2 * MAX_MESSAGES + 5)
    assert asked(cloud) == list(range(MAX_MESSAGES))
    handled(cloud, 2)
    assert asked(cloud) == list(range(MAX_MESSAGES + 2))
    cloud.bee.run_for(HANDLED_TIMEOUT + 1)
    assert asked(cloud) == list(range(2 * MAX_MESSAGES + 2))
    cloud.bee.run_for(HANDLED_TIMEOUT + 1)
    assert asked(cloud) == list(range(2 * MAX_MESSAGES + 5))


def test_an_answer_of_edgecontroller_lets_the_next_message_go_on(link: ListLink, cloud: Cloud) -> None:
    """Once, in the place of the answered message; other modules report what they have handled."""
    asks(cloud, link, 0, 2 * MAX_MESSAGES)
    first = next(each for each in cloud.bee.sent_to("edgecontroller") if each.route.resource.endswith("c0"))
    for source, count in (("dynamiccontroller", 0), ("edgecontroller", 1), ("edgecontroller", 1)):
        cloud.bee.send("cloudhub", first.reply(cloud.bee.clock, source=source))
        assert asked(cloud) == list(range(MAX_MESSAGES + count))


def test_the_transport_begins_and_ends_with_the_module() -> None:
    with Harness() as bee:
        cloud = Cloud(bee)
        link = cloud.connect()
        cloud.acknowledge(link, cloud.sends())
        assert cloud.starts == [True]
    assert cloud.starts == [True, False]
    assert cloud.acknowledged() == [[("n1", "uid-web", 7, False)]], "the last ones are reported"


def test_a_module_that_fails_ends_its_transport_and_begins_another(cloud: Cloud) -> None:
    cloud.bee.expect_failures()
    cloud.connect()
    cloud.controller("node/n1", "disconnected", "what nobody can read")
    cloud.bee.run_for(30)
    assert cloud.starts == [True, False, True]
    assert cloud.bee.hive.restarts() == {CloudHub.name: 1}


def test_messages_that_reach_no_node_are_counted_by_reason(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_session, "WAITING", 0)
    cloud.sends()
    cloud.controller("node/n1/default/podpatch/web", "response", {"Object": {}})
    cloud.controller("default/pod/web", "insert", version="7")
    link = cloud.connect()
    cloud.sends(version="")
    cloud.controller("node/n1/default/configmap/c", "response", {"metadata": {"uid": "u"}}, "7")
    assert [each.route.operation for each in link.take()] == ["error"]
    cloud.acknowledge(link, cloud.bee.message("default/pod/p", "insert"))
    cloud.says(link, cloud.bee.message("default/pod/p", "update", source="edgecontroller"))
    cloud.says(link, cloud.bee.message("a/topic", "upload", source="bus", group="user"))
    assert cloud.counters.dropped == {
        "the node is not connected": 2,
        "no node in the resource": 1,
        "no resourceversion in the header": 1,
        "too many answers wait for the node": 1,
        "acknowledgement of nothing": 1,
        "an echo of the cloud's own": 1,
        "nobody here for: send to the router": 1,
    }


def test_an_answer_for_which_there_is_no_room_is_an_error(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node would wait until its time is over; it need not acknowledge that."""
    monkeypatch.setattr(node_session, "WAITING", 0)
    link = cloud.connect()
    question = cloud.bee.message("node/n1/default/configmap/c", "query")
    answer = question.reply(cloud.bee.clock, {"metadata": {"uid": "u"}}, source="edgecontroller")
    cloud.bee.send(CloudHub.name, answer.with_header(resourceversion="7"))
    (error,) = link.take()
    assert (error.parent_id, error.route.operation, error.route.resource) == (
        question.id,
        "error",
        "default/configmap/c",
    )
    assert error.content_as(str) == "cloudhub: too many answers wait for the node; ask again later"
    cloud.bee.run_for(60.0)
    assert link.take() == []


def test_a_version_that_the_node_has_is_acknowledged_again_and_one_that_is_on_its_way_is_not(
    link: ListLink, cloud: Cloud
) -> None:
    first = cloud.sends()
    cloud.sends()
    cloud.bee.run_for(CloudHubSettings().ack_delay)
    assert cloud.acknowledged() == []
    cloud.acknowledge(link, first)
    cloud.sends()
    cloud.bee.run_for(CloudHubSettings().ack_delay)
    assert cloud.acknowledged() == [[("n1", "uid-web", 7, False)] * 2]
    assert len(link.take()) == 1
    assert not cloud.counters.dropped


def test_a_message_that_is_sent_again_is_counted(cloud: Cloud) -> None:
    cloud.connect()
    cloud.sends()
    assert cloud.counters.resent == 0
    cloud.bee.run_for(11)
    assert cloud.counters.resent == 2


def test_the_owner_sees_nodes_in_order_with_two_machines_of_one_name_for_a_while(cloud: Cloud) -> None:
    for node in ("n2", "n1"):
        cloud.connect(node)
    for _ in range(MANY):
        assert [one.last_error for one in states(cloud)] == ["", ""]
        cloud.connect("n2")
    one, two = states(cloud)
    assert (one.node, one.last_error, two.node) == ("n1", "", "n2")
    assert "two machines" in two.last_error
    cloud.bee.run_for(REMEMBERED)
    cloud.connect("n2")
    assert [one.last_error for one in states(cloud)] == [""]


@pytest.mark.parametrize("is_refusal", [False, True])
def test_a_node_that_cannot_be_written_to_is_let_go(link: ListLink, cloud: Cloud, *, is_refusal: bool) -> None:
    link.closed = True
    if is_refusal:
        cloud.says(link, cloud.bee.message("default/secret/s", "insert", source="edged", group="meta"))
        assert len(link.handled_bytes) == 1, "cloudhub goes on"
    else:
        cloud.sends()
    assert cloud.events() == ["connected node/n1", "disconnected node/n1"]
    assert cloud.sessions == {}


def test_a_message_that_cannot_be_encoded_ends_nothing(link: ListLink, cloud: Cloud) -> None:
    cloud.controller("node/n1/default/podpatch/web", "response", {"Object": object()})
    cloud.sends()
    assert [message.route.resource for message in link.take()] == ["default/pod/web"]


def test_a_node_is_never_told_to_answer_a_request_of_the_clouds_bus(link: ListLink, cloud: Cloud) -> None:
    """A KubeEdge edge would take the flag for its own bus."""
    cloud.bee.hive.request_then(
        CloudHub.name, cloud.bee.message("node/n1/default/volume/v", "createvolume", source="csi"), 9.0, lambda _: None
    )
    cloud.bee.settle()
    assert [message.header.sync for message in link.take()] == [False]


@pytest.mark.parametrize("node", ["n10", "n1"])
def test_an_answer_counts_only_from_the_node_that_was_asked(cloud: Cloud, node: str) -> None:
    """Nor from one whose name it begins with."""
    links = {each: cloud.connect(each) for each in ("n10", "n1")}
    request = cloud.bee.message("node/n10/default/volume/v", "createvolume", source="csi")
    answers: list[Any] = []
    cloud.bee.hive.request_then(CloudHub.name, request, 60.0, answers.append)
    cloud.bee.settle()
    (sent,) = links["n10"].take()
    cloud.says(links[node], sent.reply(cloud.bee.clock, {"volume": "v"}, source="edged"), node)
    came = [each.content_as(dict) for each in answers if isinstance(each, Message)]
    assert came == ([{"volume": "v"}] if node == "n10" else [])
    refused = {("answer to nothing that this node was asked", "volume"): 1}
    assert cloud.refusals.counts == ({} if node == "n10" else refused)
    cloud.bee.run_for(61)
    assert node == "n10" or isinstance(answers[0], RequestError)


def test_what_no_edge_says_is_refused_counted_and_shown(link: ListLink, cloud: Cloud) -> None:
    """It is answered if its node may wait; long texts of a node are cut."""
    resource = "default/secret/" + "s" * 500
    for operation in ("insert", "remove"):
        message = cloud.bee.message(resource, operation, source="edged", group="meta")
        cloud.happens(FrameReceived("n1", link, message, 10))
    assert cloud.refusals.counts == {("not a message of an edge", "secret"): 2}
    (answer,) = link.take()
    assert (answer.route.operation, answer.route.group, answer.route.source) == ("error", "resource", "cloudhub")
    assert link.handled_bytes == [10, 10]
    cloud.bee.run_for(3)
    (state,) = states(cloud)
    assert state.last_error_seconds == 3.0
    assert state.last_error == f"not a message of an edge: remove {resource[:100]}"


def test_the_empty_message_of_an_edge_that_stops_is_no_error(link: ListLink, cloud: Cloud) -> None:
    """KubeEdge's edgecore sends one at each stop, without an id."""
    empty = cloud.bee.message("", "", source="", group="").with_header(msg_id="", timestamp=0)
    cloud.happens(FrameReceived("n1", link, empty, 10))
    assert (cloud.refusals.counts.total(), link.take(), link.handled_bytes) == (0, [], [10])
    cloud.bee.run_for(3)
    assert states(cloud)[0].last_error == ""


def test_an_error_of_a_node_is_shown_in_part(link: ListLink, cloud: Cloud) -> None:
    cloud.says(link, cloud.bee.message("default/pod/web", "error", "x" * 10_000, source="edged", group="resource"))
    cloud.bee.run_for(3)
    (state,) = states(cloud)
    assert state.last_error.startswith('default/pod/web: "xxx')
    assert len(state.last_error) <= 550
    assert state.last_error_seconds == 3.0


class Listening(Module):
    """A module that keeps the events of connections."""

    name = JOURNAL
    group = JOURNAL

    def __init__(self, came: list[str]) -> None:
        super().__init__()
        self._came = came

    @handles()
    def take(self, message: Message) -> None:
        """Keep it."""
        self._came.append(message.content_as(ConnectEvent).event_type)


class Devices(Module):
    """A controller of devices that knows what is read, and nothing else."""

    name = ModuleName.DEVICECONTROLLER
    group = Group.DEVICECONTROLLER
    side = Side.CLOUD

    def __init__(self, came: list[str]) -> None:
        super().__init__()
        self._came = came

    @handles(None, "get")
    def take(self, message: Message) -> None:
        """Keep it."""
        self._came.append(message.route.resource)


def test_each_message_counts_as_handled_once_whoever_takes_it() -> None:
    """A controller that is here, one without a handler for it, or none: else the node would be read no more."""
    came: list[str] = []
    with Harness() as bee:
        bee.add(Devices, came)
        cloud = Cloud(bee)
        link = cloud.connect()
        letters = len(bee.hive.dead_letters)
        for number, (operation, source, group) in enumerate(
            [
                ("get", "twin", "twin"),
                ("unknown", "twin", "twin"),
                ("upload", "bus", "user"),
                ("null", "metaserver", "x"),
            ]
        ):
            resource = "null" if source == "metaserver" else f"membership/detail{number}"
            message = bee.message(resource, operation, source=source, group=group)
            cloud.happens(FrameReceived("n1", link, message, number + 1))
        assert came == ["node/n1/membership/detail0"]
        assert link.handled_bytes == [1, 2, 3, 4]
        assert len(bee.hive.dead_letters) == letters + 1
        assert cloud.counters.dropped == {
            "nobody here for: send to the router": 1,
            "nobody here for: send to the dynamic controller": 1,
        }


@pytest.mark.parametrize("has_module", [False, True])
def test_a_node_is_told_that_no_controller_takes_its_message(*, has_module: bool) -> None:
    """It would wait until its own time is over."""
    with Harness() as bee:
        if has_module:
            bee.add(Devices, [])
        cloud = Cloud(bee)
        link = cloud.connect()
        report = bee.message("device/default/d/twin/edge_updated", "update", source="twin", group="resource")
        cloud.says(link, report)
        (told,) = link.take()
        assert (told.parent_id, told.route.operation) == (report.id, "error")


def test_whoever_is_here_hears_of_connections() -> None:
    came: list[str] = []
    with Harness() as bee:
        bee.add(Listening, came)
        cloud = Cloud(bee)
        cloud.happens(LinkClosed("n1", cloud.connect()))
    assert came == ["connected", "disconnected"]
    assert len(cloud.bee.sent_to("edgecontroller")) == 2


def test_events_of_connections_have_where_a_node_is_and_why_it_went(cloud: Cloud) -> None:
    link = ListLink()
    cloud.bee.run_for(100)
    cloud.happens(LinkOpened("n1", link, "192.0.2.7", 1234.5))
    cloud.happens(LinkClosed("n1", link))
    connected, gone = (each.content_as(ConnectEvent) for each in cloud.bee.sent_to("edgecontroller"))
    assert (connected.event_type, gone.event_type) == ("connected", "disconnected")
    assert (connected.client_id, connected.timestamp) == ("n1", int(cloud.bee.clock.now()))
    assert (connected.address, connected.certificate_ends, connected.reason) == ("192.0.2.7", 1234.5, "")
    assert (gone.connection, gone.reason) == (connected.connection, "the connection was closed")
    assert {each.destination for each in cloud.bee.sent} == {"edgecontroller"}, "none is for a module that is not here"
    silent = cloud.connect("n2")
    cloud.bee.run_for(32)
    assert silent.closed
    assert cloud.bee.sent_to("edgecontroller")[-1].content_as(ConnectEvent).reason == "no keepalive for 30 s"
