"""Bounds of what is taken of a device, and what is done before the cloud is there."""

import json
from contextlib import nullcontext
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.module import Module
from modules.apimachinery.device_properties import MAX_VALUE, ModelProperty
from modules.edge.devicetwin import changes, values
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.errors import TOO_LARGE, TwinRefused
from modules.edge.devicetwin.membership import Members
from modules.edge.devicetwin.owner import read_desired
from modules.edge.devicetwin.requests import (
    DeviceRequest,
    TwinRequest,
    TwinsRequest,
    read_attributes,
    read_object,
    read_twins,
)
from modules.edge.devicetwin.slots import Slots
from modules.edge.devicetwin.state import Attribute, Device, Side, Twin
from modules.edge.devicetwin.store import Stored
from modules.edge.devicetwin.uplink import Uplink
from modules.edge.devicetwin.values import MAX_PROPERTIES

_STAMP = MessageStamp(1000, lambda: "id")


def test_a_device_has_so_many_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cloud's next one is named, and none of its message is taken."""
    monkeypatch.setattr(changes, "MAX_PROPERTIES", 2)
    device = Device("ns/d", attributes={"a": Attribute("1")})
    full = changes.set_attributes(device, {"b": Attribute("2")}, "e", _STAMP).device
    assert list(full.attributes) == ["a", "b"]
    refused = changes.set_attributes(full, {"b": Attribute("3"), "c": Attribute("3")}, "e", _STAMP)
    assert (refused.device, refused.publications) == (full, ())
    assert "more than 2 attributes" in refused.notes[0]
    again = DeviceRequest("ns/d", attributes={"c": Attribute("3")})
    assert changes.join(full, again, {}, "e", _STAMP).notes == refused.notes


def test_a_device_has_so_many_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted ones included: their versions count."""
    monkeypatch.setattr(changes, "MAX_PROPERTIES", 2)
    device = Device("ns/d", twins={"gone": Twin(type="deleted")})
    for name, fault in (("a", ""), ("a", ""), ("b", "2 properties")):
        with pytest.raises(TwinRefused, match=fault) if fault else nullcontext():
            request = TwinsRequest("e", {name: TwinRequest(actual="1")})
            device = changes.update_twins(device, request, {}, _STAMP, Rules(heartbeat=0)).device
    assert list(device.twins) == ["gone", "a"]


def test_the_answer_names_what_was_deleted() -> None:
    """And no property that was not there."""
    device = Device("ns/d", twins={"t": Twin(actual=Side("1")), "kept": Twin(actual=Side("1"), optional=False)})
    request = TwinsRequest("e", {"t": None, "kept": None, "strange": None})
    result = changes.update_twins(device, request, {}, _STAMP, Rules()).publications[0]
    assert json.loads(result.payload)["twin"] == {"t": None}


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"event_id": "e" * 1024}, ""),
        ({"event_id": "e" * 1025}, "1024 characters"),
        ({"twin": {"t": {"expected_version": {"cloud": 2**63 - 1, "edge": 0}}}}, ""),
        ({"twin": {"t": {"expected_version": {"cloud": 2**63, "edge": 0}}}}, "whole numbers"),
        ({"twin": {"t": {"expected_version": {"cloud": 0, "edge": -1}}}}, "whole numbers"),
    ],
)
def test_bounds_of_a_request(request_: dict[str, Any], fault: str) -> None:
    with pytest.raises(TwinRefused, match=fault) if fault else nullcontext():
        read_twins({"twin": {}, **read_object(json.dumps(request_))})


@pytest.mark.parametrize(("number", "fault"), [(MAX_PROPERTIES, ""), (MAX_PROPERTIES + 1, f"{MAX_PROPERTIES}")])
def test_a_message_has_so_many_properties_and_attributes(number: int, fault: str) -> None:
    many = {f"p{each}": {"value": "x"} for each in range(number)}
    for read in (
        lambda: read_attributes({"attributes": many}),
        lambda: read_twins({"twin": dict.fromkeys(many)}),
        lambda: read_desired(json.dumps(dict.fromkeys(many, "x")).encode()),
    ):
        with pytest.raises(TwinRefused, match=fault) if fault else nullcontext():
            assert read()


def test_a_value_has_so_many_characters() -> None:
    values.check_text("t", "x" * MAX_VALUE, plain=False)
    with pytest.raises(TwinRefused) as refused:
        values.check_text("t", "x" * (MAX_VALUE + 1), plain=False)
    assert refused.value.code == TOO_LARGE


@pytest.mark.parametrize(
    ("optional", "is_optional"), [({}, True), ({"optional": True}, True), ({"optional": False}, False)]
)
def test_an_attribute_is_optional_unless_it_says_otherwise(optional: dict[str, bool], *, is_optional: bool) -> None:
    (attribute,) = read_attributes({"attributes": {"place": {"value": "hall", **optional}}}).values()
    assert (attribute.value, attribute.optional, attribute.type) == ("hall", is_optional, "string")


@pytest.mark.parametrize(("like_kubeedge", "reports"), [(True, 3), (False, 1)])
def test_which_repetitions_of_a_value_count(reports: int, *, like_kubeedge: bool) -> None:
    """All as KubeEdge has it, also within a millisecond; by our rules one in a heartbeat."""
    device, rules = Device("ns/d"), Rules(like_kubeedge=like_kubeedge)
    asked = TwinsRequest("e", {"t": TwinRequest(actual="20")})
    for _ in range(3):
        device = changes.update_twins(device, asked, {}, _STAMP, rules).device
    actual = device.twins["t"].actual
    assert actual is not None
    assert actual.edge == reports


def test_nothing_is_sent_before_the_cloud_is_connected() -> None:
    device = Device("ns/d", number=1, twins={"t": Twin(actual=Side("20", due=1))})
    module = Mock(spec=Module)
    uplink = Uplink(module, "n1", Mock(spec=Slots, saved=lambda _id: device), Mock())
    uplink.enqueue(device)
    module.send.assert_not_called()
    assert uplink.waiting == 1, "it waits for the connection"


def test_a_device_whose_object_went_while_the_module_did_not_run_is_removed() -> None:
    """Those that the cloud's list has made stay: they have no object."""
    slots = Mock(spec=Slots)
    gone, listed = Device("ns/gone", has_object=True), Device("ns/listed")
    Members(cast("Any", slots), "n1", Rules(), lambda: None).load(Stored([gone, listed], [], []), _STAMP)
    done = [(name, arguments[0]) for name, arguments, _ in slots.mock_calls]
    assert done == [("load", [gone, listed]), ("remove", "ns/gone")]


def test_a_desired_value_that_the_model_forbids_is_named_and_not_expected() -> None:
    model = {"t": ModelProperty("t", "INT", "ReadWrite", "0", "100")}
    read = Mock(description="", desired={"t": "101"}, metadata=Mock(uid="u"))
    change = changes.apply_object(Device("ns/d"), read, model, _STAMP, Rules())
    assert ("t" in change.device.twins, "the desired value of t is not taken" in change.notes[0]) == (False, True)
