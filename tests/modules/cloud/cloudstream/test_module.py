"""The module cloudStream alone on the bus, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from beehive.message import Message
from beehive.names import ModuleName
from beehive.testing import Harness
from modules.cloud.apiserver.commands import Verb
from modules.cloud.client.calls import STRATEGIC, ApiCall, ApiResult
from modules.cloud.cloudhub.connection import WebsocketLink
from modules.cloud.cloudstream.module import RETRY_SECONDS, CloudStream
from modules.cloud.cloudstream.stream_service import StreamListener
from modules.cloud.cloudstream.tunnels import Tunnels


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
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)
        listener = cast("StreamListener", self.streams) if has_listener else None
        bee.add(CloudStream, self.tunnels, self._make, listener)
        bee.start()

    def connect(self, node: str) -> WebsocketLink:
        """A node opens its tunnel."""
        link = WebsocketLink(lambda _: None)
        self.tunnels.add(node, "", link)
        self.bee.settle()
        return link

    def _make(self, port: int) -> Server:
        self.ports.append(port)
        return self.server

    def _answer(self, message: Message) -> Message | None:
        if message.route.operation != Verb.CALL:
            return None
        self.calls.append(message.content_as(ApiCall))
        return message.reply(self.bee.clock, self.result)


@pytest.fixture
def bee() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


def test_a_nodes_port_is_written_once_when_its_tunnel_opens(bee: Harness) -> None:
    """So that a cluster's API server finds this cloudcore in place of the node's kubelet."""
    bus = Bus(bee)
    bus.connect("n1")
    bee.run_for(10 * RETRY_SECONDS)
    [call] = bus.calls
    assert (call.verb, call.plural, call.name, call.subresource) == ("patch", "nodes", "n1", "status")
    assert call.patch_type == STRATEGIC
    assert call.body == {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10351}}}}


def test_a_port_that_cannot_be_written_is_tried_again_for_two_minutes(bee: Harness) -> None:
    """And no longer, nor when the tunnel has gone."""
    bus = Bus(bee)
    bus.result = ApiResult(refusal={"code": 404, "message": 'nodes "n1" not found'})
    link = bus.connect("n1")
    bee.run_for(20 * RETRY_SECONDS)
    assert len(bus.calls) == 6
    bus.connect("n2")
    bus.tunnels.remove("n1", link)
    bus.connect("n1")
    bus.result = ApiResult({})
    bee.run_for(1.5 * RETRY_SECONDS)
    assert [call.name for call in bus.calls[6:]] == ["n2", "n1", "n2", "n1"]


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
