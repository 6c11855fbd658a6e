"""Devices and DeviceModels of v1alpha2, in the form of v1beta1."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.unvalidated import as_object
from modules.cloud.device_forms import converted_device, converted_model

Json = dict[str, Any]

OLD_MODEL: Json = {
    "kind": "DeviceModel",
    "metadata": {"name": "sensor"},
    "spec": {
        "protocol": "modbus",
        "properties": [
            {"name": "temperature", "description": "hall",
             "type": {"int": {"accessMode": "ReadOnly", "maximum": 100, "unit": "C"}}},
            {"name": "on", "type": {"string": {"accessMode": "ReadWrite", "defaultValue": "OFF"}}},
            {"name": "odd", "type": {"int": {}, "string": {}}},
        ],
    },
}  # fmt: skip


def selector(*values: str, key: str = "") -> Json:
    """A node selector as KubeEdge's examples have it."""
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]}


OLD_DEVICE: Json = {
    "kind": "Device",
    "metadata": {"name": "hall"},
    "spec": {
        "deviceModelRef": {"name": "sensor"},
        "nodeSelector": selector("n1"),
        "protocol": {"modbus": {"slaveID": 1}, "common": {"com": {"serialPort": "1", "baudRate": 115200}}},
        "propertyVisitors": [
            {"propertyName": "temperature", "collectCycle": 500, "modbus": {"register": "CoilRegister", "offset": 2},
             "customizedValues": {"x": 1}},
            {"propertyName": "on", "customizedProtocol": {"protocolName": "gpio", "configData": {"pin": 4}}},
        ],
        "data": {"dataTopic": "t"},
    },
    "status": {"twins": [
        {"propertyName": "on", "desired": {"value": "ON", "metadata": {"type": "string"}}, "reported": {}},
        {"propertyName": "temperature", "desired": {"value": ""}},
    ]},
}  # fmt: skip


def test_a_model_gets_types_as_words() -> None:
    """The error lists what has no place in the new form, and nothing else."""
    converted = converted_model(OLD_MODEL)
    assert converted.is_old
    assert converted.object["spec"]["properties"] == [
        {"name": "temperature", "description": "hall",
         "type": "INT", "accessMode": "ReadOnly", "maximum": "100", "unit": "C"},
        {"name": "on", "type": "STRING", "accessMode": "ReadWrite"},
        {"name": "odd"},
    ]  # fmt: skip
    assert [("defaultValue" in each, "'odd'" in each) for each in converted.unused] == [(True, False), (False, True)]


def test_a_device_gets_its_node_its_properties_and_desired_values() -> None:
    converted = converted_device(OLD_DEVICE)
    assert converted.is_old
    assert converted.object["spec"] == {
        "deviceModelRef": {"name": "sensor"},
        "nodeName": "n1",
        "protocol": {
            "protocolName": "modbus",
            "configData": {"slaveID": 1, "serialPort": "1", "baudRate": 115200},
        },
        "properties": [
            {"name": "temperature", "collectCycle": 500, "visitors": {
                "protocolName": "modbus",
                "configData": {"register": "CoilRegister", "offset": 2, "x": 1},
            }},
            {"name": "on", "visitors": {"protocolName": "gpio", "configData": {"pin": 4}},
             "desired": {"value": "ON", "metadata": {"type": "string"}}, "reportToCloud": True},
        ],
    }  # fmt: skip
    assert [each.partition(":")[0] for each in converted.unused] == ["spec.data"]
    assert OLD_DEVICE["spec"]["nodeSelector"], "the stored object is as it was"


@pytest.mark.parametrize(
    ("protocol", "config", "unused"),
    [
        ({"modbus": {"slaveID": 1}, "common": {"tcp": {"ip": "10.0.0.9", "port": 5020}, "commType": "tcp"}},
         {"slaveID": 1, "ip": "10.0.0.9", "port": 5020, "commType": "tcp"}, []),
        ({"opcua": {"url": "opc.tcp://a", "timeout": 5}, "common": {"customizedValues": {"rack": 2, "on": True}}},
         {"url": "opc.tcp://a", "timeout": 5, "rack": 2, "on": True}, []),
        ({"bluetooth": {"macAddress": "BC:6A", "none": None}}, {"macAddress": "BC:6A"}, []),
        ({"customizedProtocol": {"protocolName": "gpio", "configData": {"pin": 4, "bus": {"id": 1}, "l": [1]}}},
         {"pin": 4}, [f"spec.protocol.customizedProtocol.configData.{each}" for each in ("bus", "l")]),
        ({"modbus": {"port": 1}, "common": {"tcp": {"port": 2, "x": {"y": 3}}, "com": 7}},
         {"port": 1, "com": 7}, ["spec.protocol.common.tcp.port", "spec.protocol.common.tcp.x"]),
        ({"modbus": {}, "common": []}, {}, ["spec.protocol.common"]),
    ],
)  # fmt: skip
def test_an_address_stands_where_mappers_find_it(protocol: Any, config: Json, unused: list[str]) -> None:
    """A mapper gets texts, numbers and booleans by their names: what is none of these is named as unused."""
    converted = converted_device({"metadata": {}, "spec": {"protocol": protocol}})
    assert converted.object["spec"]["protocol"]["configData"] == config
    found = [each.partition(":")[0] for each in converted.unused]
    assert sorted(found) == sorted(unused)


def test_a_way_to_a_property_is_flat_too() -> None:
    """Of Bluetooth's converter what mappers can get."""
    visitor = {"propertyName": "t", "bluetooth": {
        "characteristicUUID": "f000", "dataWrite": {"ON": "AQ=="},
        "dataConverter": {"startIndex": 2, "orderOfOperations": [{"operationType": "Add"}]},
    }}  # fmt: skip
    converted = converted_device({"metadata": {}, "spec": {"propertyVisitors": [visitor]}})
    (made,) = converted.object["spec"]["properties"]
    assert made["visitors"] == {
        "protocolName": "bluetooth",
        "configData": {"characteristicUUID": "f000", "startIndex": 2},
    }
    assert [each.partition(":")[0] for each in converted.unused] == [
        "the visitor of 't'.bluetooth.dataWrite", "the visitor of 't'.bluetooth.dataConverter.orderOfOperations",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "node"),
    [
        (selector("n1", key="kubernetes.io/hostname"), "n1"),
        ({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
         "n1"),
        (selector("n1", "n2"), ""), (selector("n1", key="zone"), ""), ({}, ""), (7, ""), (selector(), ""),
        ({"nodeSelectorTerms": [*selector("n1")["nodeSelectorTerms"], *selector("n2")["nodeSelectorTerms"]]}, ""),
    ],
)  # fmt: skip
def test_only_a_selector_of_one_node_names_it(wanted: Any, node: str) -> None:
    """With any other the device has no node, and the message asks to name one."""
    old = {**OLD_DEVICE, "spec": {**OLD_DEVICE["spec"], "nodeSelector": wanted}}
    converted = converted_device(old)
    assert converted.object["spec"].get("nodeName", "") == node
    assert any("spec.nodeName" in each for each in converted.unused) is (node == "")


def test_rows_of_the_new_form_stay_as_they_are() -> None:
    """Also with the twins that KubeEdge 1.15 to 1.22 wrote into a Device, and with parts of either form."""
    twins = [{"propertyName": "t", "reported": {"value": "1"}, "observedDesired": {"value": ""}}]
    new = {
        "metadata": {},
        "spec": {"protocol": {"protocolName": "x"}, "properties": [{"name": "t"}]},
        "status": {"twins": twins},
    }
    assert converted_device(new) == (new, False, ())
    model = {"spec": {"properties": [{"name": "t", "type": "INT"}]}}
    assert converted_model(model) == (model, False, ())
    mixed = deepcopy(OLD_DEVICE)
    mixed["spec"] |= {"nodeName": "n9", "properties": [{"name": "on", "desired": {"value": "x"}}]}
    spec = converted_device(mixed).object["spec"]
    assert spec["nodeName"] == "n9"
    assert [(each["name"], each.get("desired")) for each in spec["properties"]] == [
        ("on", {"value": "x"}), ("temperature", None),
    ]  # fmt: skip


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(
        ["properties", "type", "int", "protocol", "modbus", "nodeSelector", "nodeSelectorTerms", "matchFields",
         "values", "operator", "key", "propertyVisitors", "propertyName", "desired", "value", "twins", "name",
         "customizedProtocol"]
    ), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(_ANY, _ANY)
def test_any_shape_is_converted(spec: Any, status: Any) -> None:
    """And what was converted has the new form."""
    obj = {"metadata": {}, "spec": spec, "status": status}
    model, device = converted_model(obj), converted_device(obj)
    assert not converted_model(model.object).is_old or model.unused
    if device.is_old:
        assert not {"nodeSelector", "propertyVisitors", "data"} & device.object["spec"].keys()
        protocols = [device.object["spec"].get("protocol", {}), *(
            each.get("visitors", {}) for each in device.object["spec"].get("properties", []) if isinstance(each, dict)
        )]  # fmt: skip
        for each in protocols if "properties" not in as_object(spec) else ():
            assert not any(
                isinstance(value, dict | list) for value in as_object(as_object(each).get("configData")).values()
            )
