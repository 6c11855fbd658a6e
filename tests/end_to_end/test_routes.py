"""Rules between processes: callers at cloudcore, edgecore, mosquitto, an application of the node, and a server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from modules.cloud.router import status_writer
from modules.processes.cloudcore.config import RouterConfig
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.devices import EventBusOptions
from modules.processes.edgecore.config.model import ServiceBusOptions
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.processes import Process, wait_until
from tests.modules.cloud.router.rules import from_topic, from_url, to_service, to_topic
from tests.modules.edge.eventbus.broker import Application, Broker, needs_mosquitto
from tests.modules.processes.cloudcore.routes import RuleAuthors, call
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.http_application import HttpApplication
from tests.support.ports import free_port

pytestmark = needs_mosquitto
NODE = "edge-1"
ASKED = "http://cap.example/call"


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(status_writer, "FIRST", 0.05)
    directory = tmp_path / "cloud"
    directory.mkdir()
    with Stub(directory, router=RouterConfig(port=0)) as made:
        yield made


def _configuration(root: Path, broker: Broker, stub: Stub, port: int) -> EdgeCoreConfig:
    config = EdgeCoreConfig.below(root)
    modules = config.modules
    host, websocket_port = stub.core.address
    websocket = replace(modules.edge_hub.websocket, server=f"ws://{host}:{websocket_port}")
    kubelet = replace(modules.edged.tailored_kubelet_config, read_only_port=0)
    edged = replace(modules.edged, enable=False, hostname_override=NODE, tailored_kubelet_config=kubelet)
    modules = replace(
        modules,
        edge_hub=replace(modules.edge_hub, websocket=websocket),
        edged=edged,
        event_bus=EventBusOptions(enable=True, mqtt_server_external=f"tcp://127.0.0.1:{broker.port}"),
        service_bus=ServiceBusOptions(enable=True, port=port),
    )
    return replace(config, modules=modules)


def test_all_pairs_of_a_rule(tmp_path: Path, broker: Broker, stub: Stub) -> None:
    """A caller reaches an application and the broker of a node, whose messages and requests reach a server."""
    port, callers, authors = free_port(), stub.core.callers_port, RuleAuthors(stub.client)
    file = tmp_path / "edgecore.yaml"
    file.write_text(render(_configuration(tmp_path / "node", broker, stub, port)))
    edge = Process("modules.processes.edgecore", ["run", "--config", str(file)], tmp_path / "edge.log")
    listener = Application(broker.port, "capt/#")
    try:
        with HttpApplication() as application, HttpApplication() as server:
            authors.wait()
            authors.apply_endpoints(application.port)
            url = f"http://127.0.0.1:{server.port}"
            up = from_topic(f"{url}/in", "up/#", NODE), from_url(f"{url}/orders", ASKED, NODE)
            authors.apply(to_topic(), to_service(), *up)
            wait_until(lambda: "connected to the MQTT broker" in edge.text() or not edge.runs, "MQTT is connected")
            assert edge.runs, edge.tail()
            target = f"/{NODE}/cap/svc/x?q=1"
            wait_until(lambda: call(callers, target).status == 200, "the node is connected")
            answer = call(callers, target, "PUT", b"in")
            assert (answer.status, answer.body) == (200, b"PUT /api/x?q=1 in")
            assert call(callers, f"/{NODE}/cap/a/b", "POST", b"hello").body == b"message delivered"
            assert listener.hear() == ("capt/b", b"hello")
            wait_until(lambda: _posted(listener, server), "the node's message reaches the server")
            wait_until(lambda: _asked(port) == "PUT /orders text", "the application's request reaches the server")
    finally:
        listener.close()
        edge.kill()


def _posted(listener: Application, server: HttpApplication) -> bool:
    """Publish a message, and return whether the server has one; the node may not have subscribed yet."""
    listener.publish("cap/up/1", "21")
    return any(heard.body == b"21" and heard.headers["x-mqtt-topic"] == "cap/up/1" for heard in server.heard)


def _asked(port: int) -> str:
    """Ask the cloud as an application of the node; return what it gets."""
    body = json.dumps({"method": "PUT", "targetURL": ASKED, "payload": "text"}).encode()
    try:
        answer = call(port, "/", "POST", body)
    except ConnectionError:
        return ""
    return str(json.loads(answer.body)["body"])
