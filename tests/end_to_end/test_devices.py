"""A node with devices and MQTT, as processes: edgecore, mosquitto and cloudcore."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from metamanager.rows import row_of
from metamanager.store import open_store
from modules.edge.devicetwin.state import Device, encode
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.devices import EventBusOptions
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.socket_path import socket_path
from tests.end_to_end.machine import Cloud
from tests.end_to_end.processes import Process, wait_until
from tests.modules.edge.eventbus.broker import Application, Broker, needs_mosquitto
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.devices import People, device, model
from tests.support.directories import short_directory
from tests.support.own_node import alone
from tests.support.ports import free_port

pytestmark = needs_mosquitto
TOPIC = "$hw/events/device/default/thermo/twin/update"
GET = "$hw/events/device/default/thermo/twin/get"
NODE = "edge-1"


def _configuration(root: Path, port: int, cloud: str = "") -> EdgeCoreConfig:
    config = alone(EdgeCoreConfig.below(root))
    if cloud:
        hub = config.modules.edge_hub
        websocket = replace(hub.websocket, server=f"ws://{cloud}")
        config = replace(config, modules=replace(config.modules, edge_hub=replace(hub, websocket=websocket)))
    edged = replace(config.modules.edged, hostname_override=NODE)
    kubelet = replace(edged.tailored_kubelet_config, read_only_port=0)
    bus = EventBusOptions(enable=True, mqtt_server_external=f"tcp://127.0.0.1:{port}")
    edged = replace(edged, tailored_kubelet_config=kubelet, allow_unisolated_root=True)
    return replace(config, modules=replace(config.modules, edged=edged, event_bus=bus))


def _with_device(root: Path) -> None:
    root.mkdir()
    store = open_store(str(root / "edgecore.db"))
    store.put(row_of("default/devicetwin/thermo", encode(Device("default/thermo", "thermo")), 0))
    store.commit()
    store.close()


def test_a_report_outlives_a_killed_node(tmp_path: Path, broker: Broker) -> None:
    """What was answered is there after SIGKILL; what was published meanwhile is handled by the next process."""
    root, file = tmp_path / "node", tmp_path / "edgecore.yaml"
    _with_device(root)
    file.write_text(render(_configuration(root, broker.port)))
    arguments = ["run", "--config", str(file)]
    first = Process("modules.processes.edgecore", arguments, tmp_path / "first.log")
    application = Application(broker.port, f"{TOPIC}/result", f"{GET}/result")
    second: Process | None = None
    try:
        wait_until(lambda: "connected to the MQTT broker" in first.text() or not first.runs, "MQTT is connected")
        application.publish(TOPIC, _report("21"))
        assert _answer(application, "1")["temperature"]["actual"]["value"] == "21"
        first.kill()
        application.publish(TOPIC, '{"event_id":"2","timestamp":1,"twin":{"humidity":{"actual":{"value":"40"}}}}')
        second = Process("modules.processes.edgecore", arguments, tmp_path / "second.log")
        assert "humidity" in _answer(application, "2")
        application.publish(GET, '{"event_id":"3","timestamp":1}')
        twins = _answer(application, "3")
        assert {name: one["actual"]["value"] for name, one in twins.items()} == {"temperature": "21", "humidity": "40"}
    finally:
        application.close()
        first.kill()
        if second is not None:
            second.kill()
    listing = Process("modules.processes.edgecore", ["devices", "get", "default/thermo", "--config", str(file)],
                      tmp_path / "listing.log")  # fmt: skip
    assert listing.wait() == ExitCode.OK
    assert "temperature" in listing.text()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory for sockets, whose names may not be long."""
    with short_directory("mqtt-") as name:
        yield name


def test_a_node_with_a_broker_of_its_own(tmp_path: Path, short_path: Path) -> None:
    """`mqttMode: 0`: a report is answered at the mosquitto of edgecore, which is gone when edgecore is killed. Its port
    the next edgecore takes; the metrics say that it is connected.
    """
    root, file, port = short_path / "node", tmp_path / "edgecore.yaml", free_port()
    _with_device(root)
    config = _configuration(root, 1)
    bus = EventBusOptions(enable=True, mqtt_mode=0, mqtt_server_internal=f"tcp://127.0.0.1:{port}")
    file.write_text(render(replace(config, modules=replace(config.modules, event_bus=bus))))
    arguments = ["run", "--config", str(file)]
    for life in range(2):
        edge = Process("modules.processes.edgecore", arguments, tmp_path / f"{life}.log")
        try:
            _wait_for_broker(edge)
            application = Application(port, f"{TOPIC}/result")
            application.publish(TOPIC, _report("21"))
            assert _answer(application, "1")["temperature"]["actual"]["value"] == "21"
            application.close()
            assert 'eventbus_connected{broker="internal"} 1.0' in _metrics(config)
        finally:
            edge.kill()
        wait_until(lambda: not _is_taken(port), "the broker has ended with edgecore")


def _wait_for_broker(edge: Process) -> None:
    wait_until(lambda: "connected to the MQTT broker" in edge.text() or not edge.runs, "MQTT is connected")
    assert edge.runs, edge.tail()


def _metrics(config: EdgeCoreConfig) -> str:
    return NodeClient(socket_path(config)).get("/metrics").decode()


def _is_taken(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _device_passes(people: People, application: Application, edge: Process) -> None:
    """Check that a device reaches the node and the broker, its report the DeviceStatus, and its deletion the node."""
    wait_until(lambda: "connected to the MQTT broker" in edge.text() or not edge.runs, "MQTT is connected")
    people.wait()
    people.apply(model())
    for desired in ("30.5", "31.5"):
        people.apply(device(node=NODE, desired=desired))
        wait_until(lambda desired=desired: _desired(application) == desired, f"{desired} is at the broker")  # type: ignore[misc]
    application.publish(TOPIC, _report("21"))
    wait_until(lambda: people.reported("thermo") == {"temperature": "21"}, "the report is in the DeviceStatus")
    people.delete("devices", "thermo")
    wait_until(lambda: _desired(application) is None, "the node has no such device any more")


def test_a_device_of_the_cloud_is_at_the_broker_and_its_report_in_the_cloud(tmp_path: Path, broker: Broker) -> None:
    """A Device and its model reach the node. A desired value is heard at the broker, also after a change,
    and a reported one is in the DeviceStatus.
    """
    cloud = Cloud(tmp_path)
    cloud.start()
    file = tmp_path / "edgecore.yaml"
    file.write_text(render(_configuration(tmp_path / "node", broker.port, cloud.address)))
    edge = Process("modules.processes.edgecore", ["run", "--config", str(file)], tmp_path / "edge.log")
    application = Application(broker.port, f"{GET}/result", f"{TOPIC}/result")
    people = People(cloud.client)
    try:
        _device_passes(people, application, edge)
    finally:
        application.close()
        edge.kill()
        cloud.kill()


@pytest.mark.slow
def test_a_device_of_a_cluster_is_at_the_broker_and_its_report_in_the_cluster(tmp_path: Path, broker: Broker) -> None:
    """As with a cloud of its own: cloudcore is between the cluster and the node."""
    both = Cluster(tmp_path)
    file = tmp_path / "edgecore.yaml"
    host, port = both.core.core.address
    file.write_text(render(_configuration(tmp_path / "node", broker.port, f"{host}:{port}")))
    edge = Process("modules.processes.edgecore", ["run", "--config", str(file)], tmp_path / "edge.log")
    application = Application(broker.port, f"{GET}/result", f"{TOPIC}/result")
    people = People(both.cluster.client)
    try:
        _device_passes(people, application, edge)
    finally:
        application.close()
        edge.kill()
        both.close()


def _desired(application: Application) -> str | None:
    """Return the desired threshold that the node tells; None if it has no such device."""
    application.publish(GET, '{"event_id":"9","timestamp":1}')
    topic, said = application.hear()
    while topic != f"{GET}/result":
        topic, said = application.hear()
    twins = json.loads(said).get("twin") or {}
    value: str | None = ((twins.get("threshold") or {}).get("expected") or {}).get("value")
    return value


def _answer(application: Application, event_id: str) -> dict[str, Any]:
    """Return the twins in the answer to a request; an earlier one may be answered again: the broker may repeat it."""
    while True:
        said = json.loads(application.hear()[1])
        if said["event_id"] == event_id:
            twins: dict[str, Any] = said["twin"]
            return twins


def _report(value: str) -> str:
    return json.dumps({"event_id": "1", "timestamp": 1, "twin": {"temperature": {"actual": {"value": value}}}})
