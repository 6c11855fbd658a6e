"""Device and DeviceModel in DMI's form."""

import json
from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.edge.dmi.catalogue import Catalogue, device_message, model_message
from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.objects import Desired, read_mapped_device, read_mapped_model, with_desired
from modules.edge.dmi.reports import device_of, twins_update
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.modules.edge.dmi.framework import omissions

Json = dict[str, Any]


def _converted(spec: Json, model: Json | None = None, **fields: Any) -> tuple[dmi.Device, tuple[str, ...]]:
    metadata = {"name": "thermo", "namespace": "devspec"}
    device = read_mapped_device(json.dumps({"metadata": metadata, "spec": spec, **fields}).encode())
    shape = model or {"protocol": "demo", "properties": [{"name": "temperature"}]}
    stored = read_mapped_model(json.dumps({"metadata": {"name": "tm", "namespace": "devspec"}, "spec": shape}).encode())
    return device_message(device, stored)


def _data(given: dmi.CustomizedValue) -> Json:
    packed = MessageToDict(given).get("data", {})
    return {key: (one["@type"].rpartition(".")[2], one["value"]) for key, one in packed.items()}


def test_the_device_that_was_captured_at_kubeedge() -> None:
    """Field by field what a KubeEdge edge sends a mapper for this object."""
    spec = {
        "deviceModelRef": {"name": "tm"},
        "nodeName": "n1",
        "properties": [
            {"name": "temperature", "desired": {"value": ""}, "collectCycle": 1000, "reportToCloud": True,
             "visitors": {"protocolName": "demo", "configData": {"register": 7}}},
        ],
        "protocol": {"protocolName": "demo", "configData": {"port": "/dev/ttyS0", "baud": 9600, "on": True}},
        "methods": [{"name": "set", "propertyNames": ["switch"]}],
        "stateReport": {"reportToCloud": True, "reportCycle": 5000},
    }  # fmt: skip
    device, notes = _converted(spec)
    assert notes == ()
    said = MessageToDict(device)
    data = said["spec"]["protocol"].pop("configData")["data"]
    assert {key: (one["@type"], one["value"]) for key, one in data.items()} == {
        "baud": ("type.googleapis.com/google.protobuf.FloatValue", 9600.0),
        "port": ("type.googleapis.com/google.protobuf.StringValue", "/dev/ttyS0"),
        "on": ("type.googleapis.com/google.protobuf.BoolValue", True),
    }
    register = said["spec"]["properties"][0]["visitors"].pop("configData")["data"]["register"]
    assert register["value"] == 7.0
    assert said == {
        "name": "thermo",
        "namespace": "devspec",
        "spec": {
            "deviceModelReference": "tm",
            "protocol": {"protocolName": "demo"},
            "properties": [{"name": "temperature", "desired": {}, "visitors": {"protocolName": "demo"},
                            "collectCycle": "1000", "reportToCloud": True}],
            "methods": [{"name": "set", "propertyNames": ["switch"]}],
        },
        "status": {"reportToCloud": True, "reportCycle": "5000"},
    }  # fmt: skip


def test_what_ends_a_mapper_when_it_is_missing_is_always_there() -> None:
    """A Device with nothing but a property."""
    device, _ = _converted({"deviceModelRef": {"name": "tm"}, "properties": [{"name": "temperature"}]})
    assert omissions(device) == []
    assert device.spec.protocol.HasField("configData") and device.HasField("status")
    assert device.spec.protocol.protocolName == "demo", "the model's"


def test_a_property_that_is_not_in_the_model_is_not_sent() -> None:
    device, notes = _converted({"properties": [{"name": "humidity"}, {"name": "temperature"}]})
    assert [one.name for one in device.spec.properties] == ["temperature"]
    assert "humidity" in notes[0] and "devspec/tm" in notes[0]


@pytest.mark.parametrize(
    ("text", "told"), [("80", "80"), ("", ""), ("600", ""), ("4", ""), ("warm", ""), ("nan", ""), ("\u0667\u0660", "")]
)
def test_a_desired_value_that_the_model_forbids_is_not_sent(text: str, told: str) -> None:
    """The property arrives all the same: mappers of the framework need it."""
    rule = {"name": "target", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "5", "maximum": "80"}
    desired = {"value": text, "metadata": {"type": "float"}}
    device, notes = _converted({"properties": [{"name": "target", "desired": desired}]}, {"properties": [rule]})
    (one,) = device.spec.properties
    assert one.desired.value == told and one.HasField("desired") and omissions(device) == []
    assert bool(notes) == (text != told) and all("target" in note for note in notes)
    read_only, notes = _converted(
        {"properties": [{"name": "target", "desired": desired}]}, {"properties": [rule | {"accessMode": "ReadOnly"}]}
    )
    assert read_only.spec.properties[0].desired.value == ""


def test_numbers_arrive_as_they_are() -> None:
    """KubeEdge makes 16777216 of 16777217, and mappers drop 64-bit fractions."""
    data = {
        "small": 7, "large": 16777217, "negative": -3, "half": 0.5, "third": 0.1, "huge": 2**63, "wide": 1e300,
    }  # fmt: skip
    device, notes = _converted({"protocol": {"protocolName": "demo", "configData": data}})
    got = _data(device.spec.protocol.configData)
    assert got["small"] == ("FloatValue", 7.0) and got["negative"] == ("FloatValue", -3.0)
    assert got["large"] == ("Int64Value", "16777217") and got["half"] == ("FloatValue", 0.5)
    assert set(got) == {"small", "large", "negative", "half", "third"}
    assert sorted(note.split()[0] for note in notes) == ["huge", "third", "wide"]


def test_a_cycle_is_no_negative_number() -> None:
    """A mapper of the framework would make a ticker of it, and end."""
    cycles = {"reportCycle": -1, "collectCycle": -2}
    device, _ = _converted({"properties": [{"name": "temperature", **cycles}], "stateReport": {"reportCycle": -3}})
    (one,) = device.spec.properties
    assert (one.reportCycle, one.collectCycle, device.status.reportCycle) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "namespace", "device"),
    [
        ("thermo", "ns", "ns/thermo"),
        ("thermo", "", "default/thermo"),
        ("x" * 253, "ns", "ns/" + "x" * 253),
        ("x" * 254, "ns", None),
        ("thermo", "x" * 254, None),
        ("", "ns", None),
        *((f"a{letter}b", "ns", None) for letter in "/+# \n\0\u2028"),
    ],
)
def test_a_report_names_its_device(name: str, namespace: str, device: str | None) -> None:
    """Its topic is made of the names."""
    report = dmi.ReportDeviceStatesRequest(deviceName=name, deviceNamespace=namespace)
    if device is not None:
        assert device_of(report) == device
        return
    with pytest.raises(MapperCallRefused, match="name no device"):
        device_of(report)


def test_a_nested_value_is_left_out_and_the_device_stays() -> None:
    """KubeEdge refuses the whole device."""
    data = {"list": [1], "object": {"a": 1}, "nothing": None, "data": "x", "plain": "y"}
    device, notes = _converted({"protocol": {"configData": data}})
    assert _data(device.spec.protocol.configData) == {"data": ("StringValue", "x"), "plain": ("StringValue", "y")}
    assert len(notes) == 3


def test_the_models_protocol_settings_are_defaults() -> None:
    model = {
        "protocol": "demo",
        "protocolConfigData": {"port": "/dev/ttyS0", "baud": 9600},
        "properties": [{"name": "temperature", "visitors": {"protocolName": "modbus", "configData": {"a": 1, "b": 2}}}],
    }
    spec = {
        "protocol": {"configData": {"baud": 19200}},
        "properties": [{"name": "temperature", "visitors": {"configData": {"b": 3}}}],
    }
    device, _ = _converted(spec, model)
    assert _data(device.spec.protocol.configData) == {
        "port": ("StringValue", "/dev/ttyS0"), "baud": ("FloatValue", 19200.0)}  # fmt: skip
    (one,) = device.spec.properties
    assert _data(one.visitors.configData) == {"a": ("FloatValue", 1.0), "b": ("FloatValue", 3.0)}
    assert one.visitors.protocolName == "modbus"


def test_push_methods_have_their_names_in_dmi() -> None:
    influx = {
        "influxdb2ClientConfig": {"url": "http://db", "org": "o", "bucket": "b"},
        "influxdb2DataConfig": {"measurement": "m", "tag": {"hostName": "x"}, "fieldKey": "k"},
    }
    methods = {
        "http": {"hostName": "http://h", "port": 80, "requestPath": "/p", "timeout": 5},
        "mqtt": {"address": "tcp://b:1883", "topic": "t", "qos": 1, "retained": True},
        "otel": {"endpointURL": "http://o"},
        "dbMethod": {
            "influxdb2": influx,
            "redis": {"redisClientConfig": {"addr": "r", "db": 1, "poolsize": 2, "minIdleConns": 3}},
            "TDEngine": {"TDEngineClientConfig": {"addr": "t", "dbName": "d"}},
            "mysql": {"mysqlClientConfig": {"addr": "m", "database": "d", "userName": "u"}},
        },
        "anomalyDetection": {"threshold": 3},
    }
    device, notes = _converted({"properties": [{"name": "temperature", "pushMethod": methods}]})
    push = device.spec.properties[0].pushMethod
    assert notes == ()
    assert (push.http.hostname, push.http.port, push.http.requestpath) == ("http://h", 80, "/p")
    assert (push.mqtt.qos, push.mqtt.retained, push.otel.endpointURL) == (1, True, "http://o")
    assert push.dbMethod.influxdb2.influxdb2DataConfig.tag == {"hostName": "x"}
    assert push.dbMethod.tdengine.tdEngineClientConfig.dbname == "d"
    assert (push.dbMethod.redis.redisClientConfig.minIdleConns, push.dbMethod.mysql.mysqlClientConfig.userName) == (
        3, "u")  # fmt: skip
    assert "threshold" in push.anomalyDetection.data


def test_a_push_method_of_another_form_is_left_out() -> None:
    device, notes = _converted({"properties": [{"name": "temperature", "pushMethod": {"http": {"port": "x"}}}]})
    assert not device.spec.properties[0].HasField("pushMethod")
    assert "pushMethod of temperature" in notes[0]


def test_a_model_has_its_properties_and_no_visitors() -> None:
    shape = {"name": "temperature", "type": "INT", "accessMode": "ReadOnly", "minimum": "1", "maximum": "2",
             "unit": "degree", "description": "d", "visitors": {"configData": {"a": 1}}}  # fmt: skip
    text = {"metadata": {"name": "tm", "namespace": "ns"}, "spec": {"properties": [shape], "protocol": "demo"}}
    message = model_message(read_mapped_model(json.dumps(text).encode()))
    assert MessageToDict(message) == {
        "name": "tm", "namespace": "ns",
        "spec": {"properties": [{key: value for key, value in shape.items() if key != "visitors"}]},
    }  # fmt: skip


_WORDS = st.sampled_from(
    ["a", "tm", "demo", "\ud800", "hostName", "9" * 40, "", "http", "dbMethod", "redis", "redisClientConfig", "db"]
)
_KEYS = st.sampled_from(
    ["configData", "visitors", "desired", "value", "reportCycle", "collectCycle", "pushMethod", "http", "port",
     "dbMethod", "mqtt", "qos", "methods", "stateReport", "type", "protocolConfigData"]
)  # fmt: skip
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.sampled_from([0.1, 1e300]) | _WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_SPEC = st.dictionaries(_KEYS, _ANY, max_size=4)
_PROPERTY = st.fixed_dictionaries({"name": st.just("t")}, optional={"pushMethod": _SPEC, "visitors": _SPEC})


@settings(max_examples=60, deadline=None)
@given(device=_SPEC, prop=_PROPERTY | _SPEC, model=_SPEC)
def test_no_object_is_an_error(device: Json, prop: Json, model: Json) -> None:
    """What cannot be read is refused when it is stored, and all that can be read has a form, or is left out."""
    catalogue = Catalogue()
    named = {"name": "tm", "namespace": "ns"}
    device = {**device, "deviceModelRef": {"name": "tm"}, "properties": [prop], "protocol": {"protocolName": "demo"}}
    model = {**model, "properties": [{"name": "t"}], "protocol": "demo"}
    try:
        catalogue.put_model(read_mapped_model(json.dumps({"metadata": named, "spec": model}).encode()))
        catalogue.put_device(read_mapped_device(json.dumps({"metadata": named, "spec": device}).encode()))
    except (msgspec.DecodeError, UnicodeError):
        return
    for key in catalogue.keys("demo"):
        wanted = catalogue.wanted("demo", key)
        assert wanted is None or wanted.digest


def test_the_owners_desired_value_replaces_the_clouds_and_nothing_else() -> None:
    """The value's metadata stay; a property that the Device lacks stays untouched."""
    properties = [{"name": "a", "desired": {"value": "1", "metadata": {"k": "v"}}}, {"name": "b"}, {"name": "c"}]
    spec = {"deviceModelRef": {"name": "tm"}, "properties": properties}
    before = read_mapped_device(json.dumps({"metadata": {"name": "d", "namespace": "n"}, "spec": spec}).encode())
    after = with_desired(before, {"a": "2", "b": "3", "z": "4"})
    assert [one.desired for one in after.spec.properties or ()] == [Desired("2", {"k": "v"}), Desired("3"), None]
    assert with_desired(before, {}) == before


def test_a_report_of_a_desired_value_alone_confirms_it() -> None:
    twin = dmi.Twin(propertyName="switch", observedDesired=dmi.TwinProperty(value="true"))
    report = dmi.ReportDeviceStatusRequest(reportedDevice=dmi.DeviceStatus(twins=[twin]))
    assert twins_update(report, 5, echo=False)["twin"] == {"switch": {"observed": {"value": "true"}}}
