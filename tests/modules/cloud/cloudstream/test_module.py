"""The module cloudStream alone on the bus, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from beehive.message import Message
from beehive.names import ModuleName
from beehive.testing import Harness
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import STRATEGIC, ApiCall, ApiResult
from modules.cloud.cloudstream.module import CloudStream
from modules.cloud.cloudstream.node_ports import LONGEST_PAUSE, QUIET_SECONDS, RETRY_SECONDS
from modules.cloud.cloudstream.stream_service import StreamListener
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.messages import KUBELET_PORTS, KUBELET_PORTS_RESOURCE
from modules.cloud.websocket.connection import WebsocketLink


class Server:
    """Stands where a server is: has a port, and was started and stopped."""

    port = 10351
    advertised_port = 10351

    def __init__(self) -> None:
        self.steps: list[str] = []

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", 10004

    def start(self, *_: Any) -> Server:
        self.steps.append("start")
        return self

    def stop(self) -> None:
        self.steps.append("stop")


class Bus:
    """The module, with the calls that it makes and what they are answered with."""

    def __init__(self, bee: Harness, *, has_listener: bool = True) -> None:
        self.bee = bee
        self.tunnels = Tunnels(bee.clock)
        self.server, self.streams = Server(), Server()
        self.ports: list[int] = []
        self.calls: list[ApiCall] = []
        self.result = ApiResult({})
        self.sees_at_calls: list[int] = []
        """Ports that another writer writes while the next calls are made."""
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)
        listener = cast("StreamListener", self.streams) if has_listener else None
        bee.add(CloudStream, self.tunnels, self._make, listener)
        bee.start()

    def connect(self, node: str) -> WebsocketLink:
        """A node opens its tunnel."""
        link = WebsocketLink(lambda _: None)
        self.tunnels.add(node, "", link)
        self._opened(node)
        self.bee.settle()
        return link

    def see(self, **ports: int) -> None:
        """edgecontroller tells the ports of Nodes."""
        source = ModuleName.EDGECONTROLLER
        told = self.bee.message(KUBELET_PORTS_RESOURCE, KUBELET_PORTS, ports, source=source)
        self.bee.send(ModuleName.CLOUDSTREAM, told)

    def _make(self, port: int, opened: Callable[[str], None]) -> Server:
        self.ports.append(port)
        self._opened = opened
        return self.server

    def _answer(self, message: Message) -> Message | None:
        if message.route.operation != Verb.CALL:
            return None
        self.calls.append(message.content_as(ApiCall))
        if self.sees_at_calls:
            self.bee.simulation.clock.jump_wall(2 * QUIET_SECONDS)  # the pauses are not by that clock
            self.see(n1=self.sees_at_calls.pop(0))
        return message.reply(self.bee.clock, self.result)


@pytest.fixture
def bus(bee: Harness) -> Bus:
    return Bus(bee)


def test_a_nodes_port_is_written_once_when_its_tunnel_opens(bus: Bus, bee: Harness) -> None:
    """So that a cluster's API server finds this cloudcore in place of the node's kubelet."""
    bus.connect("n1")
    bee.run_for(10 * RETRY_SECONDS)
    [call] = bus.calls
    assert (call.verb, call.plural, call.name, call.subresource) == ("patch", "nodes", "n1", "status")
    assert call.patch_type == STRATEGIC
    assert call.body == {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10351}}}}


def test_a_port_that_cannot_be_written_is_tried_again_while_the_node_has_a_tunnel(
    bus: Bus, bee: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """One failure is no warning, and further ones make no second."""
    bus.result = ApiResult(refusal={"code": 500, "message": "etcdserver: request timed out"})
    link = bus.connect("n1")
    assert [record.levelname for record in caplog.records if record.levelname == "WARNING"] == []
    bee.run_for(20 * RETRY_SECONDS)
    assert len(bus.calls) == 21
    assert [record.levelname for record in caplog.records if record.levelname == "WARNING"] == ["WARNING"]
    bus.connect("n2")
    bus.tunnels.remove("n1", link)
    bus.result = ApiResult({})
    bee.run_for(10 * RETRY_SECONDS)
    assert [call.name for call in bus.calls[21:]] == ["n2", "n2"]


def test_a_port_that_is_written_with_a_new_tunnel_is_not_tried_again(bus: Bus, bee: Harness) -> None:
    bus.result = ApiResult(refusal={"code": 500})
    link = bus.connect("n1")
    bus.tunnels.remove("n1", link)
    bus.result = ApiResult({})
    bus.connect("n1")
    bee.run_for(10 * RETRY_SECONDS)
    assert len(bus.calls) == 2


def test_a_node_that_is_not_there_yet_gets_its_port_when_it_is(
    bus: Bus, bee: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """KubeEdge's edge opens its tunnel while it registers: that is no reason for a warning."""
    bus.result = ApiResult(refusal={"code": 404, "message": 'nodes "n1" not found'})
    bus.connect("n1")
    bee.run_for(10 * RETRY_SECONDS)
    assert len(bus.calls) == 1
    bus.result = ApiResult({})
    bus.see(n1=10350)
    assert len(bus.calls) == 2
    assert "WARNING" not in caplog.text


def test_a_port_that_another_writer_replaces_is_written_again(bus: Bus, bee: Harness) -> None:
    """By a restarted edge, by an edge that registers a deleted Node; not the port of a node without a tunnel here."""
    link = bus.connect("n1")
    for port in (10255, 0, 13462):
        before = len(bus.calls)
        bus.see(n1=port, n2=port)
        bus.see(n1=10351)
        assert [call.name for call in bus.calls[before:]] == ["n1"]
        bee.run_for(QUIET_SECONDS + 1)
    bus.tunnels.remove("n1", link)
    bee.run_for(2 * QUIET_SECONDS)
    running: Any = bee.hive.slot(ModuleName.CLOUDSTREAM).running
    assert running.ref._actor_weakref()._ports._ports == {}, "nothing is kept of a node that has gone"


def test_a_port_that_changes_while_it_is_written_is_written_again(bus: Bus, bee: Harness) -> None:
    bus.connect("n1")
    bus.sees_at_calls = [10255]
    bus.see(n1=10255)
    bee.run_for(1)
    assert len(bus.calls) == 3


def test_two_writers_that_do_not_agree_take_turns_slowly(bus: Bus, bee: Harness) -> None:
    """A second cloudcore that holds a dead tunnel of the node gives up after half a minute."""
    bus.connect("n1")
    bus.sees_at_calls = [10399] * 1000
    bus.see(n1=10399)
    bee.run_for(30)
    assert len(bus.calls) < 15
    bus.sees_at_calls.clear()
    bee.run_for(LONGEST_PAUSE)
    assert bus.calls[-1].body == {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10351}}}}
    last = len(bus.calls)
    bee.run_for(10 * RETRY_SECONDS)
    assert len(bus.calls) == last


def test_nothing_is_written_for_the_embedded_api_server(bee: Harness) -> None:
    bus = Bus(bee, has_listener=False)
    bus.connect("n1")
    assert bus.calls == []


def test_the_servers_begin_and_end_with_the_module() -> None:
    with Harness() as bee:
        bus = Bus(bee)
        assert bus.ports == [0]
        assert bus.tunnels.port == 10004
    assert bus.server.steps == bus.streams.steps == ["start", "stop"]
