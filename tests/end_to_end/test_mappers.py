"""The example mapper beside edgecore and cloudcore, as three processes."""

import signal
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.machine import Cloud
from tests.end_to_end.processes import REPOSITORY, Process, wait_until
from tests.modules.processes.cloudcore.devices import People
from tests.support.ports import free_port

NODE = "edge-1"
MANIFEST = REPOSITORY / "examples" / "more" / "thermometer.yaml"


def _configuration(root: Path, cloud: str) -> EdgeCoreConfig:
    config = EdgeCoreConfig.below(root)
    hub = config.modules.edge_hub
    websocket = replace(hub.websocket, server=f"ws://{cloud}")
    edged = replace(config.modules.edged, hostname_override=NODE, allow_unisolated_root=True)
    kubelet = replace(edged.tailored_kubelet_config, read_only_port=0)
    edged = replace(edged, tailored_kubelet_config=kubelet)
    return replace(config, modules=replace(config.modules, edge_hub=replace(hub, websocket=websocket), edged=edged))


def test_from_a_manifest_to_the_room_and_back(tmp_path: Path) -> None:
    """The devices of the manifest reach the mapper, its reports the cloud. A desired value that changes while the node
    is down reaches the mapper when the node is back. A method is called on the node. SIGTERM ends the mapper.
    """
    cloud = Cloud(tmp_path)
    cloud.start()
    root, file = tmp_path / "node", tmp_path / "edgecore.yaml"
    config = _configuration(root, cloud.address)
    file.write_text(render(config))
    socket = str(config.modules.device_twin.dmi_socket)
    run = ["run", "--config", str(file)]
    edge = Process("modules.processes.edgecore", run, tmp_path / "first.log")
    port = str(free_port())
    options = ["--edgecore", socket, "--http-port", port]
    mapper = Process("examples.thermometer_mapper", options, tmp_path / "mapper.log")
    people = People(cloud.client)
    heater: dict[str, Any] = {}
    try:
        people.wait()
        for one in yaml.safe_load_all(MANIFEST.read_text()):
            people.apply(one)
            heater = one
        wait_until(lambda: people.reported("hall-heater") == {"on": "false"}, "the heater is off")
        wait_until(lambda: 10 < float(people.reported("hall").get("temperature", "0")) < 30, "it is not too cold")
        wait_until(lambda: people.status("hall").get("state") == "online", "the device is online")
        _want(people, heater, "true")
        wait_until(lambda: people.reported("hall-heater") == {"on": "true"}, "the heater is on")
        edge.kill()
        _want(people, heater, "false")
        edge = Process("modules.processes.edgecore", run, tmp_path / "second.log")
        wait_until(lambda: people.reported("hall-heater") == {"on": "false"}, "the heater is off again")
        call = ["devices", "call", "default/hall-heater", "turn", "on=true", "--port", port, "--config", str(file)]
        calling = Process("modules.processes.edgecore", call, tmp_path / "call.log")
        assert calling.wait() == 0, calling.text()
        wait_until(lambda: people.reported("hall-heater") == {"on": "true"}, "the heater was turned on")
        people.delete("devices", "hall")
        mapper.signal(signal.SIGTERM)
        assert mapper.wait() == 0
    finally:
        mapper.kill()
        edge.kill()
        cloud.kill()


def _want(people: People, heater: dict[str, Any], value: str) -> None:
    (prop,) = heater["spec"]["properties"]
    people.apply({**heater, "spec": {**heater["spec"], "properties": [{**prop, "desired": {"value": value}}]}})
