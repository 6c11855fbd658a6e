"""How the page reads devices: in parts, bounded, and once for all browsers."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.cli.errors import StatusError
from modules.insight.fleet.rows import NodeRow
from modules.page.devices import MOST, DeviceReader

NODES = [NodeRow("n1", "connected")]
ROOT = "/apis/devices.kubeedge.io/v1beta1"


def device(number: int) -> dict[str, Any]:
    """Return a Device."""
    metadata = {"namespace": "default", "name": f"d{number:05}", "uid": f"u{number}"}
    properties = [{"name": "threshold", "desired": {"value": "30"}}]
    return {"metadata": metadata, "spec": {"nodeName": "n1", "deviceModelRef": {"name": "m"}, "properties": properties}}


def status(number: int) -> dict[str, Any]:
    """Return the DeviceStatus of a Device."""
    metadata = {"namespace": "default", "name": f"d{number:05}", "ownerReferences": [{"uid": f"u{number}"}]}
    twins = [{"propertyName": "threshold", "reported": {"value": "30"}, "observedDesired": {"value": "30"}}]
    return {"metadata": metadata, "status": {"twins": twins, "state": "online"}}


class Api:
    """An API server with objects by plural; a plural that it does not have is not found."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects = objects
        self.asked: list[str] = []
        self.code = 404

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        """Return a part of a list, or an object."""
        self.asked.append(path)
        parts = path.removeprefix(f"{ROOT}/").split("/")
        if len(parts) == 1 and parts[0] in self.objects:
            items, given = self.objects[parts[0]], dict(query)
            begin = int(given.get("continue", 0))
            end = begin + int(given["limit"])
            return {"items": items[begin:end], "metadata": {"continue": str(end)} if end < len(items) else {}}
        for each in self.objects.get(parts[-2] if len(parts) > 1 else "", []):
            if each["metadata"]["name"] == parts[-1]:
                return each
        raise StatusError(self.code, "NotFound", "not found")

    def lines(self, path: str, query: Any = ()) -> Any:
        """There are no watches."""
        raise AssertionError(path)


def test_devices_are_read_once_for_all_browsers() -> None:
    simulation = Simulation(1)
    api = Api(devices=[device(1), device(2)], devicemodels=[], devicestatuses=[status(1)])
    reader = DeviceReader(api, simulation.clock)
    answer = reader.devices(NODES, "")
    assert answer.sentence == "1 of 2 devices is as desired; 1 unknown."
    assert answer.now == simulation.clock.now()
    assert (len(api.asked), reader.devices(NODES, "d00001").groups[0].rows[0].name) == (3, "d00001")
    assert len(api.asked) == 3
    simulation.run_for(10.0)
    reader.devices(NODES, "")
    assert len(api.asked) == 6


def test_no_more_devices_are_read_than_a_page_needs() -> None:
    numbers = range(MOST + 500)
    api = Api(devices=[device(each) for each in numbers], devicestatuses=[status(each) for each in numbers])
    answer = DeviceReader(api, Simulation(1).clock).devices(NODES, "")
    assert (answer.sentence, answer.is_cut) == ("2000 of the first 2000 devices are as desired.", True)
    assert answer.more == MOST - 200
    assert len(api.asked) == 2 * (MOST // 100 + 1) + 1
    del api.objects["devices"][MOST:]
    assert not DeviceReader(api, Simulation(1).clock).devices(NODES, "").is_cut


def test_a_device_whose_status_was_not_read_is_not_called_silent() -> None:
    others = [status(number) for number in range(1000, 1000 + MOST + 1)]
    api = Api(devices=[device(1), device(1000)], devicestatuses=[*others, status(1)])
    answer = DeviceReader(api, Simulation(1).clock).devices(NODES, "")
    assert (answer.sentence, answer.is_cut) == ("1 of the first 1 device is as desired.", True)


def test_a_server_without_devices_lists_none() -> None:
    api = Api()
    assert DeviceReader(api, Simulation(1).clock).devices(NODES, "").sentence == "There are no devices."
    api.code = 403
    with pytest.raises(StatusError):
        DeviceReader(api, Simulation(1).clock).devices(NODES, "")


def test_a_device_without_model_and_status_has_a_story() -> None:
    api = Api(devices=[device(1)])
    clock = Simulation(1).clock
    reader = DeviceReader(api, clock)
    story = reader.story("default", "d00001", NODES)
    assert (story.row.state, story.now) == ("unknown", clock.now())
    with pytest.raises(StatusError):
        reader.story("default", "d00002", NODES)
    api.objects["devicestatuses"] = [status(1)]
    assert reader.story("default", "d00001", NODES).sentence == "default/d00001 is as desired."
