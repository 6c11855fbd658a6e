"""The node's owner sets desired values and watches changes: devicetwin on the bus with a real store."""

import json
import os
import select
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from modules.edge.devicetwin import topics
from modules.edge.devicetwin.feed import MOST_HELD, DeviceFeed, TwinChange, changes_between
from modules.edge.devicetwin.owner import OwnerAnswer
from modules.edge.devicetwin.past import entries
from modules.edge.devicetwin.state import Device, Side, Twin, decode
from tests.modules.edge.devicetwin.recorded import Node
from tests.support.failing import census
from tests.support.stopping import stopping

MODEL = {
    "metadata": {"name": "model", "namespace": "ns", "uid": "m", "resourceVersion": "1"},
    "spec": {"properties": [
        {"name": "threshold", "type": "INT", "accessMode": "ReadWrite", "minimum": "0", "maximum": "40", "unit": "C"},
        {"name": "temperature", "type": "FLOAT", "accessMode": "ReadOnly"},
        {"name": "label", "type": "STRING"},
    ]},
}  # fmt: skip


def _from_cloud(node: Node, resource: str, content: Any) -> None:
    node.from_cloud(node.bee.message(resource, "update", content, source="edgecontroller", group="resource"))


def _device(version: int, **desired: str) -> dict[str, Any]:
    properties = [{"name": name, "desired": {"value": value}} for name, value in desired.items()]
    meta = {"name": "thermo", "namespace": "ns", "uid": "d", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"deviceModelRef": {"name": "model"}, "properties": properties}}


def _set(node: Node, values: Any, device: str = "ns/thermo") -> OwnerAnswer:
    message = node.bee.message(topics.owner_resource(device), "update", json.dumps(values), source="edgecore")
    return node.bee.ask("twin", message).content_as(OwnerAnswer)


def _stored(node: Node) -> Device:
    """The device in the node's database."""
    message = node.bee.message("ns/devicetwin/thermo", "query", source="edged", group="meta")
    (row,) = json.loads(bytes(node.bee.ask("metamanager", message).content_raw()))
    return decode(row.encode())


def _twin(node: Node, name: str = "threshold") -> Twin:
    return _stored(node).twins[name]


@pytest.fixture
def thermo(node: Node) -> Node:
    """A node with a device whose model has three properties; the cloud desires the threshold 30."""
    _from_cloud(node, "ns/devicemodel/model", MODEL)
    _from_cloud(node, "ns/device/thermo", _device(1, threshold="30"))
    return node


def test_a_value_is_desired_here_until_the_cloud_desires_another(thermo: Node) -> None:
    """The owner's value is stored before the answer, heard by applications, and told to the cloud; the same object
    again does not end it, another desired value does.
    """
    assert _set(thermo, {"threshold": "35"}) == OwnerAnswer()
    assert (_twin(thermo).expected or Side()).value == "35" and _twin(thermo).expected_by == "devices set"
    assert [said["delta"] for topic, said in thermo.published if topic.endswith("/delta")][-1] == {"threshold": "35"}
    assert not [topic for topic, _ in thermo.published if topic.endswith("/result")], "no application has asked"
    thermo.link(up=True)
    (told,) = [one for one in thermo.uploads if "edge_updated" in one.route.resource]
    assert json.loads(bytes(told.content_raw()))["twin"]["threshold"]["expected"]["value"] == "35"
    _from_cloud(thermo, "ns/device/thermo", _device(2, threshold="30", label="door"))
    assert (_twin(thermo).expected or Side()).value == "35"
    _from_cloud(thermo, "ns/device/thermo", _device(3, threshold="31", label="door"))
    assert (_twin(thermo).expected or Side()).value == "31" and _twin(thermo).expected_by == "cloud"
    past = [(one.value, one.by) for one in entries(_twin(thermo).past_expected, thermo.bee.clock.now_ms())]
    assert past == [("30", "cloud"), ("35", "devices set"), ("31", "cloud")]


def test_a_value_is_given_back_to_the_cloud(thermo: Node) -> None:
    _set(thermo, {"threshold": "35"})
    before = _twin(thermo).expected or Side()
    assert _set(thermo, {"threshold": None}) == OwnerAnswer()
    after = _twin(thermo).expected or Side()
    assert (after.value, _twin(thermo).expected_by, after.edge) == ("30", "cloud", before.edge + 1)


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        ({"threshold": "warm"}, "threshold is INT 0 to 40 C"),
        ({"threshold": "41"}, "0 to 40 C"),
        ({"temperature": "20"}, "ReadOnly"),
        ({"humidity": "20"}, "label, temperature, threshold"),
        ({"label": "door", "threshold": "41"}, "0 to 40 C"),
        ({"label": "x" * 70_000}, "65536"),
        ({}, "1 to 100"),
        ({"label": 5}, "strings"),
    ],
    ids=["type", "range", "read-only", "unknown", "one-of-two", "too-long", "nothing", "no-string"],
)
def test_values_that_the_model_forbids_are_refused_with_the_allowed_ones(
    thermo: Node, values: Any, allowed: str
) -> None:
    """And nothing is changed, also not the property that would have been allowed."""
    before = _stored(thermo)
    answer = _set(thermo, values)
    assert answer.code in (400, 413) and allowed in answer.reason
    assert _stored(thermo) == before


def test_an_unknown_device_is_refused_with_those_there_are(thermo: Node) -> None:
    answer = _set(thermo, {"threshold": "35"}, "ns/other")
    assert answer.code == 404 and "ns/thermo" in answer.reason


def test_without_a_model_only_properties_of_the_device_are_set(node: Node) -> None:
    _from_cloud(node, "ns/device/thermo", _device(1, threshold=""))
    assert _set(node, {"threshold": "any"}) == OwnerAnswer()
    refused = _set(node, {"treshold": "any"})
    assert refused.code == 400 and "threshold" in refused.reason
    assert _set(node, {"threshold": "x" * 70_000}).code == 413


def test_a_value_that_cannot_be_stored_is_refused(thermo: Node) -> None:
    thermo.disk_is_full = True
    assert _set(thermo, {"threshold": "35"}).code == 500
    thermo.disk_is_full = False
    assert (_twin(thermo).expected or Side()).value == "30"


def test_a_watch_gets_each_committed_change(tmp_path: Path) -> None:
    """Of its device only; what is refused or not stored is no change. The descriptor can be read when there is one."""
    feed = DeviceFeed()
    with (
        stopping(Node(tmp_path, name="n1", feed=feed)) as node,
        feed.listening("ns/thermo") as listener,
        feed.listening("ns/other") as deaf,
    ):
        _from_cloud(node, "ns/devicemodel/model", MODEL)
        _from_cloud(node, "ns/device/thermo", _device(1, threshold="30"))
        assert select.select([listener.wakeup], [], [], 0)[0]
        _set(node, {"threshold": "99"})
        _set(node, {"threshold": "35"})
        node.from_application("$hw/events/device/ns/thermo/state/update", '{"event_id":"1","state":"online"}')
        heard = [(one.what, one.property, one.before, one.value, one.by) for one in listener.drain()]
        assert heard == [
            ("added", "", None, None, ""),
            ("desired", "threshold", None, "30", "cloud"),
            ("desired", "threshold", "30", "35", "devices set"),
            ("state", "", None, "online", ""),
        ]
        assert not select.select([listener.wakeup], [], [], 0)[0]
        assert deaf.drain() == []


def test_a_slow_watch_loses_the_oldest_changes_and_learns_how_many() -> None:
    """In number and in characters: neither many small values nor few large ones fill the memory."""
    feed = DeviceFeed()
    states = [
        Device("a/b", twins={"p": Twin(actual=Side(str(number), number, edge=number))})
        for number in range(MOST_HELD + 6)
    ]
    with feed.listening() as listener:
        for before, after in pairwise(states):
            feed.put(before, after)
        lost, *kept = listener.drain()
        assert (lost.lost, len(kept), kept[-1].value) == (5, MOST_HELD, str(MOST_HELD + 5))
        large = [Device("a/b", state=letter * 60_000) for letter in "abcdefghijkl"]
        for before, after in pairwise(large):
            feed.put(before, after)
        lost, *kept = listener.drain()
        assert lost.lost == 3 and (kept[-1].value or "")[:1] == "l"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(listener.wakeup.fileno())


def test_a_value_that_is_reported_again_is_a_change_and_a_confirmation_is_not() -> None:
    before = Device("a/b", twins={"p": Twin(actual=Side("1", 5, edge=1, due=1))})
    told = Device("a/b", twins={"p": Twin(actual=Side("1", 5, edge=1, told=True))})
    again = Device("a/b", twins={"p": Twin(actual=Side("1", 9, edge=2, due=2))})
    assert list(changes_between(before, told)) == []
    assert list(changes_between(told, again)) == [TwinChange("reported", 9, "a/b", "p", "1", "1")]
    assert list(changes_between(again, None)) == [TwinChange("removed", device="a/b")]


@pytest.mark.parametrize("error", [ValueError("of this test"), GeneratorExit()])
def test_a_listener_that_ends_in_an_error_is_told_nothing_any_more(error: BaseException) -> None:
    """Its descriptor is closed, and may be another one's soon."""
    feed = DeviceFeed()
    before = census((feed,))
    with suppress(type(error)), feed.listening("d"):
        raise error
    assert not feed._listeners
    assert census((feed,)).more_than(before) == []
