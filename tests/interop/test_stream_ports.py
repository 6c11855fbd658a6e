"""Who writes the kubelet's port of a node with a stream tunnel: an edge that starts again and again, under our cloud
and under KubeEdge's, with an API server that stores what both write, in the order in which it comes.

A request is on its way for 0 to 0.3 s, and its answer as long. The API server of a cluster reaches the node's streams
if the port in the Node's status is the cloud's, and the cloud serves the node's tunnel.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import pytest

from beehive import Group, Message, ModuleName, Operation, Source
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from edged.host import Host
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from metamanager.module import MetaManager, MetaSettings
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.client.calls import STRATEGIC, ApiResult
from modules.cloud.cloudstream.module import CloudStream
from modules.cloud.cloudstream.stream_service import StreamListener
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.connection import WebsocketLink
from modules.edge.edgestream.counters import StreamCounters
from modules.edge.edgestream.module import EdgeStream
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.doubles.container_runtime.machine_info import FakeMachineInfo
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.edged.conftest import IMAGE
from tests.modules.cloud.cloudstream.test_module import Server
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer

NODE = "n1"
RESOURCE = f"null/node/{NODE}"
PORT = 10351
OWN_PORT = 13462
STEP = 0.05
LONGEST_WAY = 0.3
_NODE = kind_named("Node")


class Cloud(Protocol):
    """A cloud, with the API server of its cluster."""

    server: ClusterServer
    bee: Harness

    def opened(self) -> None:
        """The node has dialled its tunnel."""

    def ended(self) -> None:
        """The tunnel has ended."""

    @property
    def serves(self) -> bool:
        """Whether a request for the node gets into a tunnel that is alive."""


class OurCloud:
    """edgecontroller and cloudstream."""

    def __init__(self) -> None:
        self.bee = Harness(1)
        self.server = ClusterServer(self.bee.clock)
        self._tunnels = Tunnels(self.bee.clock)
        listener = cast("StreamListener", Server())
        self.bee.add(CloudStream, self._tunnels, self._make_server, listener)
        ClusterController(self.bee, self.server, nodes=())
        self._link: WebsocketLink | None = None

    def _make_server(self, _port: int, opened: Callable[[str], None]) -> Server:
        self._node_opened = opened
        return Server()

    def opened(self) -> None:
        """See `Cloud`."""
        self._link = WebsocketLink(lambda _: None)
        self._tunnels.add(NODE, "", self._link)
        self._node_opened(NODE)

    def ended(self) -> None:
        """See `Cloud`."""
        if self._link is not None:
            self._tunnels.remove(NODE, self._link)

    @property
    def serves(self) -> bool:
        """See `Cloud`."""
        return self._tunnels.has(NODE)


class KubeEdgesCloud:
    """KubeEdge's tunnel server: a handler looks for the Node at once and every 20 s for 2 min, writes the port, enters
    its tunnel over the old one, and only then reads from it and notices an end.
    """

    def __init__(self) -> None:
        self.bee = Harness(1)
        self.server = ClusterServer(self.bee.clock)
        self._dialled = 0
        self._alive = 0
        self._entered = 0

    def opened(self) -> None:
        """See `Cloud`."""
        self._dialled += 1
        self._alive = self._dialled
        self._look(self._dialled, 6)

    def ended(self) -> None:
        """See `Cloud`."""
        self._alive = 0

    @property
    def serves(self) -> bool:
        """See `Cloud`."""
        return self._entered == self._alive != 0

    def _look(self, tunnel: int, attempts: int) -> None:
        status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}}}
        if patched(self.server, {"status": status}).object is not None:
            self._entered = tunnel
        elif attempts:
            self.bee.clock.after(20.0, lambda: self._look(tunnel, attempts - 1))


def patched(server: ClusterServer, patch: JsonObject) -> ApiResult:
    """Patch the node's status."""
    return server.call(server.call_for("patch", _NODE, NODE, subresource="status", patch_type=STRATEGIC, body=patch))


class TunnelCloud(MemoryCloud):
    """The end of the node's tunnels, which tells a cloud of them on its own clock."""

    def __init__(self, edge: Edge, cloud: Cloud) -> None:
        super().__init__(edge.bee.simulation)
        self._edge = edge
        self._cloud = cloud
        self.hanging = True  # no stream is opened, and the streams' thread would wait in real time

    def admits(self) -> bool:
        self._edge.later(self._cloud.opened)
        return super().admits()


class Edge:
    """metamanager, edged and edgestream, from one start of the process to its end."""

    def __init__(self, path: Path, cloud: Cloud, draw: random.Random) -> None:
        self.bee = Harness(draw.randrange(2**32))
        self._cloud = cloud
        self._draw = draw
        self._is_up = True
        self.tunnel = TunnelCloud(self, cloud)
        for group in (ModuleName.EDGEHUB, Group.HUB):
            self.bee.answer(group, self._asks)
        settings = EdgedSettings(
            node_name=NODE,
            root=path / "edged",
            pod_logs=path / "logs",
            runtime_endpoint="unix:///fake",
            node_ip="192.0.2.2",
            server_port=OWN_PORT,
            has_stream_tunnel=True,
        )
        runtime = FakeRuntime(self.bee.simulation, [IMAGE])
        self.bee.add(MetaManager, MetaSettings(str(path / "edgecore.db")))
        self.bee.add(Edged, settings, runtime.connect, Snapshots(), "v1.32", Host(machine_info=FakeMachineInfo()))
        self.bee.add(EdgeStream, self.tunnel.make_link, lambda: pytest.fail("nobody asks"), StreamCounters())
        self.bee.start()
        self.run_for(0.5)
        self.connection(CLOUD_CONNECTED)

    def connection(self, content: str) -> None:
        """edgehub's event about its connection."""
        for module in (ModuleName.METAMANAGER, ModuleName.EDGED, ModuleName.EDGESTREAM):
            message = self.bee.message(CONNECTION_RESOURCE, Operation.CONNECT, content, source=Source.EDGEHUB)
            self.bee.send(module, message)

    def deleted(self) -> None:
        """The cloud's message that the Node is gone."""
        message = self.bee.message(
            RESOURCE, Operation.DELETE, None, source=ModuleName.EDGECONTROLLER, group=Group.RESOURCE
        )
        self.bee.send(ModuleName.METAMANAGER, message)

    def run_for(self, seconds: float) -> None:
        """Let time pass on both sides."""
        for _ in range(round(seconds / STEP)):
            self.bee.run_for(STEP)
            self._cloud.bee.run_for(STEP)

    def kill(self) -> None:
        """The process ends; what is on its way arrives."""
        self._is_up = False
        self._cloud.ended()
        self.run_for(2 * LONGEST_WAY)
        self.bee.__exit__(None, None, None)

    def later(self, function: Callable[[], None]) -> None:
        """Call after the time that a message is on its way."""
        self.bee.clock.after(self._draw.uniform(0, LONGEST_WAY), function)

    def _asks(self, message: Message) -> None:
        if not message.parent_id and self._is_up:
            self.later(lambda: self._arrives(message))

    def _arrives(self, message: Message) -> None:
        reply = message.reply(self.bee.clock, self._answer(message), source=ModuleName.EDGECONTROLLER)
        answer = reply.with_route(group=Group.RESOURCE)
        self.later(partial(self._respond, answer))

    def _respond(self, answer: Message) -> None:
        if self._is_up:
            self.bee.hive.respond(answer)

    def _answer(self, message: Message) -> Any:
        server, resource = self._cloud.server, message.route.resource
        if "/nodepatch/" in resource:
            return _response(patched(server, json.loads(message.content_as(str))))
        if resource == RESOURCE and message.route.operation == Operation.INSERT:
            return _response(server.call(server.call_for("create", _NODE, NODE, body=message.content_as(dict))))
        if resource == RESOURCE:
            result = server.call(server.call_for("get", _NODE, NODE))
            return result.object or {"ErrStatus": result.refusal}
        return {"Object": None, "Err": {"ErrStatus": {"status": "Failure", "reason": "NotFound", "code": 404}}}


def _response(result: ApiResult) -> JsonObject:
    return {"Object": result.object, "Err": None if result.refusal is None else {"ErrStatus": result.refusal}}


def port_in(cloud: Cloud) -> int:
    """The kubelet's port in the node's status."""
    node: Any = cloud.server.call(cloud.server.call_for("get", _NODE, NODE)).object
    return int(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"])


@pytest.fixture(params=[OurCloud, KubeEdgesCloud])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    made: Cloud = request.param()
    with made.bee:
        yield made


def test_streams_work_after_each_of_twenty_starts(tmp_path: Path, cloud: Cloud) -> None:
    """Also after the first one, before the Node exists; at most a second after the registration."""
    draw = random.Random(7)  # noqa: S311
    for start in range(20):
        edge = Edge(tmp_path, cloud, draw)
        edge.run_for(6 * LONGEST_WAY + 1)
        assert cloud.serves, start
        assert port_in(cloud) == PORT, start
        if start == 0:
            edge.run_for(60)
            assert (cloud.serves, port_in(cloud)) == (True, PORT), "later, too"
        edge.kill()


def test_streams_work_after_the_node_was_deleted(tmp_path: Path, cloud: Cloud) -> None:
    """While it is connected: its tunnel stays, and nobody dials another one."""
    edge = Edge(tmp_path, cloud, random.Random(7))  # noqa: S311
    edge.run_for(6 * LONGEST_WAY + 1)
    for _ in range(5):
        cloud.server.remove("nodes", NODE)
        edge.deleted()
        edge.run_for(10)
        assert (cloud.serves, port_in(cloud)) == (True, PORT)
    assert len(edge.tunnel.dialled) == 1
    edge.kill()


def test_streams_work_when_the_node_was_deleted_while_the_cloud_was_away(tmp_path: Path, cloud: Cloud) -> None:
    """The tunnel breaks with the connection, and is dialled when the node has registered again."""
    edge = Edge(tmp_path, cloud, random.Random(7))  # noqa: S311
    edge.run_for(6 * LONGEST_WAY + 1)
    edge.connection(CLOUD_DISCONNECTED)
    edge.tunnel.cut()
    cloud.ended()
    cloud.server.remove("nodes", NODE)
    edge.run_for(10)
    edge.connection(CLOUD_CONNECTED)
    edge.run_for(8 * LONGEST_WAY + 1)
    assert (cloud.serves, port_in(cloud)) == (True, PORT)
    edge.kill()


def test_our_cloud_writes_its_port_over_an_older_edges(tmp_path: Path) -> None:
    """Our edges before this one put their own port into their first status, after the tunnel was open."""
    cloud = OurCloud()
    with cloud.bee:
        edge = Edge(tmp_path, cloud, random.Random(7))  # noqa: S311
        edge.run_for(6 * LONGEST_WAY + 1)
        patched(cloud.server, {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": OWN_PORT}}}})
        edge.run_for(0.1)
        assert port_in(cloud) == PORT
        edge.kill()
