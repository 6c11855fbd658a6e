"""What a node reports, the DeviceStatus that it ends in, and the condition."""

import json
from typing import Any

import pytest
from msgspec import Raw

from beehive import Message, RealClock
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.limits import NODE_VALUES
from modules.cloud.devicecontroller.records import DeviceRecord, device_record, model_record
from modules.cloud.devicecontroller.reports import (
    VALUE_CHARACTERS,
    Report,
    ReportedValue,
    ReportError,
    read_state,
    read_twins,
)
from modules.cloud.devicecontroller.statuses import with_report
from modules.cloud.devicecontroller.validity import DeviceCondition, conditions_of, validity_of
from tests.modules.cloud.test_device_forms import OLD_DEVICE, OLD_MODEL

CLOCK = RealClock()
KEY = ObjectKey("Device.devices.kubeedge.io", "default", "thermo")
Json = dict[str, Any]
FINE = DeviceCondition(holds=True, reason="FitsModel")
NOW = 1_800_000_000_000


def record(**spec: Any) -> DeviceRecord:
    """A Device with two properties."""
    given = {"deviceModelRef": {"name": "m"}, "nodeName": "n1", "properties": [{"name": "t"}, {"name": "s"}], **spec}
    return device_record({"metadata": {"uid": "u1", "name": "thermo", "namespace": "default"}, "spec": given})


def status(live: Json | None, report: Report, device: DeviceRecord | None = None) -> Json:
    """The DeviceStatus with a report."""
    return with_report(live, KEY, device or record(), report, [FINE], now=NOW, at="2027-01-15T08:00:00Z")


def values(obj: Json) -> dict[str, str]:
    return {twin["propertyName"]: twin["reported"]["value"] for twin in obj["status"]["twins"]}


def said(content: Any) -> Message:
    """A report of a node."""
    return Message.new(
        CLOCK, source="system:node:n1", resource="node/n1/device/d/t/x", operation="update", content=content
    )


def reported(**sides: ReportedValue) -> Report:
    return Report(reported=dict(sides))


def test_conditions_of_others_stay_and_its_own_are_replaced() -> None:
    live = status(None, reported(t=ReportedValue("1", 1000, "int")))
    others = {"type": "Calibrated", "status": "True"}
    live["status"]["conditions"] = [others, {"type": "Valid", "status": "False", "lastTransitionTime": "then"}]
    conditions = status(live, Report())["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Valid", "Calibrated"]
    assert (conditions[0]["status"], conditions[1]) == ("True", others)


def test_a_device_that_its_mapper_refuses_has_a_condition() -> None:
    """As long as the node's last state has the reason; a report of values says nothing of it."""
    refused = read_state(said({"device": {"state": "unknown", "refusal": "no driver for the model m"}}))
    with_values = status(status(None, refused), reported(t=ReportedValue("1", 1000, "int")))
    conditions = {each["type"]: each for each in with_values["status"]["conditions"]}
    told = (conditions["Served"]["status"], conditions["Served"]["reason"], conditions["Served"]["message"])
    assert told == ("False", "RefusedByMapper", "no driver for the model m")
    merged = Report(state="unknown", refusal="no driver for the model m")
    merged.add(reported(t=ReportedValue("1", 1000, "int")))
    assert merged.refusal
    merged.add(Report(state="online"))
    assert [each["type"] for each in status(with_values, merged)["status"]["conditions"]] == ["Valid"]


def test_a_later_value_stays_in_whatever_order_they_come() -> None:
    """Whether they are merged before a write, or written one after the other."""
    old, new = reported(t=ReportedValue("1", 1000, "int")), reported(t=ReportedValue("2", 2000, "int"))
    for first, second in ((old, new), (new, old)):
        assert values(status(status(None, first), second)) == {"t": "2"}
        merged = Report()
        merged.add(first)
        merged.add(second)
        assert merged.reported["t"].value == "2"


def test_a_time_in_the_future_does_not_hold_up_later_values() -> None:
    """The edge's clock was wrong once."""
    wrong = status(None, reported(t=ReportedValue("1", NOW + 10**9, "int")))
    assert values(status(wrong, reported(t=ReportedValue("2", NOW - 5, "int")))) == {"t": "2"}


def test_a_property_that_left_the_spec_leaves_the_status() -> None:
    both = status(None, reported(t=ReportedValue("1", 1, ""), s=ReportedValue("2", 1, "")))
    assert values(status(both, Report(), record(properties=[{"name": "s"}]))) == {"s": "2"}


def test_nothing_is_left_of_an_earlier_device_of_the_name() -> None:
    """The object is the same, and its owner another."""
    before = status(None, reported(t=ReportedValue("1", 1, "")))
    before["metadata"] |= {"resourceVersion": "7", "uid": "x"}
    before["metadata"]["ownerReferences"][0]["uid"] = "u0"
    now = status(before, Report())
    assert now["status"]["twins"] == []
    assert (now["metadata"]["resourceVersion"], now["metadata"]["ownerReferences"][0]["uid"]) == ("7", "u1")


def test_a_status_with_the_same_values_is_the_same() -> None:
    """So it is not written again; the condition keeps its time, and what others have written stays."""
    live = status(None, reported(t=ReportedValue("1", 1, "int")))
    live["metadata"]["resourceVersion"] = "3"
    live["status"]["extensions"] = {"x": 1}
    live["metadata"]["ownerReferences"].append({"kind": "Line", "uid": "l1"})
    again = with_report(live, KEY, record(), Report(), [FINE], now=NOW + 9, at="2030-01-01T00:00:00Z")
    assert again == live


def test_twins_are_read_as_kubeedge_sends_them() -> None:
    """Values that are no text become JSON; a deleted twin and a null say nothing."""
    metadata = {"type": "int"}
    twins = {
        "t": {
            "actual": {"value": "21", "metadata": {"timestamp": 5}},
            "expected": {"value": "7"},
            "metadata": metadata,
        },
        "list": {"actual": {"value": [1, 2]}},
        "gone": {"actual": {}, "metadata": {"type": "deleted"}},
        "none": None,
    }
    report = read_twins(said({"event_id": "e", "twin": twins}))
    assert report.reported == {"t": ReportedValue("21", 5, "int"), "list": ReportedValue("[1,2]", 0, "")}
    assert report.observed == {"t": ReportedValue("7", 0, "int")}


def test_a_state_is_an_object_or_a_text_and_its_keys_have_any_case() -> None:
    content = {"Device": {"State": "online", "LastOnlineTime": "t"}}
    for each in (content, json.dumps(content)):
        report = read_state(said(each))
        assert (report.state, report.last_online) == ("online", "t")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, 400), ("{", 400), ([], 400), ({}, 400), ({"twin": "x"}, 400), ("[" * 10_000, 400), ("[" * 100_000, 413),
        ({"twin": {"t": {"actual": {"value": "x" * (VALUE_CHARACTERS + 1)}}}}, 413),
        ({"twin": {str(at): None for at in range(1001)}}, 413), ({"twin": {"x" * 300: None}}, 413),
        (Raw(b"[1e999" + b",1" * NODE_VALUES + b"]"), 413),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_for_good(content: Any, code: int) -> None:
    with pytest.raises(ReportError) as caught:
        read_twins(said(content))
    assert caught.value.code == code


def test_as_much_as_is_allowed_is_taken() -> None:
    twins: dict[str, Any] = {str(at): {} for at in range(999)}
    twins["n" * 256] = {"actual": {"value": "x" * VALUE_CHARACTERS, "metadata": {"timestamp": 2**63 - 1}}}
    assert read_twins(said({"twin": twins})).reported == {
        "n" * 256: ReportedValue("x" * VALUE_CHARACTERS, 2**63 - 1, "")
    }


@pytest.mark.parametrize("given", [0, -1, 2**63, True, 1.5, None, "", "x", str(2**63)])
def test_what_is_no_time_is_none(given: Any) -> None:
    twin = {"actual": {"value": "1", "metadata": {"timestamp": given}}}
    assert read_twins(said({"twin": {"t": twin}})).reported["t"].timestamp == 0


@pytest.mark.parametrize("twin", [1, "x", [], {"actual": 1}, {"actual": {"value": "1", "metadata": 3}, "metadata": []},
                                  {"actual": {"value": "1", "metadata": {"timestamp": "9" * 40}}}])  # fmt: skip
def test_a_twin_of_any_shape_raises_nothing(twin: Any) -> None:
    read_twins(said({"twin": {"t": twin}}))


MODEL = {"spec": {"properties": [
    {"name": "t", "type": "INT", "accessMode": "ReadOnly"},
    {"name": "s", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "0", "maximum": "100"},
    {"name": "b", "type": "BOOLEAN", "accessMode": "ReadWrite"},
    {"name": "n", "type": "INT", "accessMode": "ReadWrite", "minimum": "x"},
    {"name": "i", "type": "INT", "accessMode": "ReadWrite"},
]}}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "desired", "fault"),
    [
        ("s", "30.5", ""), ("s", "", ""), ("s", "101", "out of range (s is FLOAT 0 to 100"),
        ("s", "warm", "not float"), ("t", "1", "ReadOnly"), ("b", "true", ""), ("b", "1", "true or false"),
        ("n", "-5", "the limit x is no number"), ("i", "1.0", "not int"),
        ("i", "9" * 19, "not int"), ("s", "nan", "not float"), ("x", "1", "not in the model"),
    ],
)  # fmt: skip
def test_a_desired_value_has_to_fit_the_model(name: str, desired: str, fault: str) -> None:
    device = record(properties=[{"name": name, "desired": {"value": desired}}])
    found = validity_of(device, model_record(MODEL))
    assert found.holds is (fault == "")
    assert fault in found.message


def test_duplicate_properties_and_many_faults_are_reported_within_bounds() -> None:
    twice = validity_of(record(properties=[{"name": "s"}, {"name": "s"}]), model_record(MODEL))
    assert "2 times" in twice.message
    names = [{"name": f"x{at}" * 100} for at in range(500)]
    many, ten = (validity_of(record(properties=each), model_record(MODEL)) for each in (names, names[:10]))
    assert len(many.message) < 2000
    assert "490 more" in many.message
    assert " more)" not in ten.message


def test_a_setting_that_mappers_cannot_get_is_named() -> None:
    """The log of its node names it, too; the others arrive."""
    protocol = {"protocolName": "modbus", "configData": {"tcp": {"ip": "10.0.0.9"}, "port": 5020}}
    properties = [{"name": "t", "visitors": {"configData": {"offsets": [1], "limit": 1}}}, {"name": "s"}]
    found = validity_of(record(protocol=protocol, properties=properties), model_record(MODEL))
    assert (found.holds, found.reason) == (True, "FitsModel")
    assert found.message.endswith("not spec.protocol.configData.tcp; the visitors of 't'.configData.offsets")
    assert validity_of(record(), model_record(MODEL)).message == ""


def test_an_object_of_v1alpha2_has_its_unused_fields_in_the_log() -> None:
    """Its conditions are judged by what was made of it; one of v1beta1 has no such condition."""
    (valid, converted) = conditions_of(device_record({**OLD_DEVICE, "metadata": {"uid": "u"}}), model_record(OLD_MODEL))
    assert (valid.reason, converted.type, converted.reason) == ("FitsModel", "Converted", "PartlyUnderstood")
    assert "spec.data" in converted.message
    assert "defaultValue" in converted.message
    spec = {name: value for name, value in OLD_DEVICE["spec"].items() if name != "data"}
    (_, whole) = conditions_of(device_record({"metadata": {"uid": "u"}, "spec": spec}), None)
    assert (whole.holds, whole.reason) == (True, "FromV1alpha2")
    assert [each.type for each in conditions_of(record(), model_record(MODEL))] == ["Valid"]
    status = with_report(None, KEY, record(), Report(), [valid, converted], now=NOW, at="2027-01-15T08:00:00Z")
    gone = with_report(status, KEY, record(), Report(), [valid], now=NOW, at="2027-01-15T08:00:00Z")
    assert [each["type"] for each in gone["status"]["conditions"]] == ["Valid"]


def test_a_report_of_values_keeps_the_state_that_waits_to_be_written() -> None:
    waiting = Report(state="online", last_online="then")
    waiting.add(reported(t=ReportedValue("1", 1000, "int")))
    assert (waiting.state, waiting.last_online, set(waiting.reported)) == ("online", "then", {"t"})
