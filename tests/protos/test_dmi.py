"""The messages of DMI have the numbers and types of KubeEdge's v1beta1, and its services their names on the wire."""

import pytest
from google.protobuf.descriptor import FieldDescriptor

from protos.deviceplugin.v1beta1 import api_pb2 as deviceplugin
from protos.dmi.v1beta1 import MANAGER, MAPPER
from protos.dmi.v1beta1 import api_pb2 as dmi

FIELDS = {
    "MapperRegisterRequest": "1 withData bool; 2 mapper MapperInfo",
    "MapperRegisterResponse": "1 modelList DeviceModel*; 2 deviceList Device*",
    "MapperInfo": "1 name string; 2 version string; 3 api_version string; 4 protocol string; 5 address bytes; "
    "6 state string",
    "DeviceModel": "1 name string; 2 spec DeviceModelSpec; 3 namespace string",
    "DeviceModelSpec": "1 properties ModelProperty*; 2 commands DeviceCommand*",
    "ModelProperty": "1 name string; 2 description string; 3 type string; 4 accessMode string; 5 minimum string; "
    "6 maximum string; 7 unit string",
    "DeviceCommand": "1 name string; 2 url string; 3 method string; 4 status_code string*; 5 parameters string*; "
    "6 response bytes",
    "Device": "1 name string; 2 spec DeviceSpec; 3 status DeviceStatus; 4 namespace string",
    "DeviceSpec": "1 deviceModelReference string; 2 protocol ProtocolConfig; 3 properties DeviceProperty*; "
    "4 methods DeviceMethod*",
    "DeviceMethod": "1 name string; 2 description string; 3 propertyNames string*",
    "DeviceProperty": "1 name string; 2 desired TwinProperty; 3 visitors VisitorConfig; 4 reportCycle int64; "
    "5 collectCycle int64; 6 reportToCloud bool; 7 pushMethod PushMethod",
    "ProtocolConfig": "1 protocolName string; 2 configData CustomizedValue",
    "VisitorConfig": "1 protocolName string; 2 configData CustomizedValue",
    "CustomizedValue": "1 data DataEntry*",
    "PushMethod": "1 http PushMethodHTTP; 2 mqtt PushMethodMQTT; 3 dbMethod DBMethod; 4 otel PushMethodOTEL; "
    "5 anomalyDetection AnomalyDetection",
    "PushMethodHTTP": "1 hostname string; 2 port int64; 3 requestpath string; 4 timeout int64",
    "PushMethodMQTT": "1 address string; 2 topic string; 3 qos int32; 4 retained bool",
    "PushMethodOTEL": "1 endpointURL string",
    "AnomalyDetection": "1 data DataEntry*",
    "DBMethod": "1 influxdb2 DBMethodInfluxdb2; 2 redis DBMethodRedis; 3 tdengine DBMethodTDEngine; "
    "4 mysql DBMethodMySQL",
    "DBMethodInfluxdb2": "1 influxdb2ClientConfig Influxdb2ClientConfig; 2 influxdb2DataConfig Influxdb2DataConfig",
    "Influxdb2ClientConfig": "1 url string; 2 org string; 3 bucket string",
    "Influxdb2DataConfig": "1 measurement string; 2 tag TagEntry*; 3 fieldKey string",
    "DBMethodRedis": "1 redisClientConfig RedisClientConfig",
    "RedisClientConfig": "1 addr string; 2 db int32; 3 poolsize int32; 4 minIdleConns int32",
    "DBMethodTDEngine": "1 tdEngineClientConfig TDEngineClientConfig",
    "TDEngineClientConfig": "1 addr string; 2 dbname string",
    "DBMethodMySQL": "1 mysqlClientConfig MySQLClientConfig",
    "MySQLClientConfig": "1 addr string; 2 database string; 3 userName string",
    "DeviceStatus": "1 twins Twin*; 2 reportToCloud bool; 3 reportCycle int64",
    "Twin": "1 propertyName string; 2 observedDesired TwinProperty; 3 reported TwinProperty",
    "TwinProperty": "1 value string; 2 metadata MetadataEntry*",
    "ReportDeviceStatusRequest": "1 deviceName string; 2 reportedDevice DeviceStatus; 3 deviceNamespace string",
    "ReportDeviceStatesRequest": "1 deviceName string; 2 deviceNamespace string; 3 state string",
    "ReportDeviceStatusResponse": "",
    "ReportDeviceStatesResponse": "",
    "RegisterDeviceRequest": "1 device Device",
    "RegisterDeviceResponse": "1 deviceName string; 2 deviceNamespace string",
    "UpdateDeviceRequest": "1 device Device",
    "UpdateDeviceResponse": "",
    "RemoveDeviceRequest": "1 deviceName string; 2 deviceNamespace string",
    "RemoveDeviceResponse": "",
    "CreateDeviceModelRequest": "1 model DeviceModel",
    "CreateDeviceModelResponse": "1 deviceModelName string; 2 deviceModelNamespace string",
    "UpdateDeviceModelRequest": "1 model DeviceModel",
    "UpdateDeviceModelResponse": "",
    "RemoveDeviceModelRequest": "1 modelName string; 2 modelNamespace string",
    "RemoveDeviceModelResponse": "",
    "GetDeviceRequest": "1 deviceName string; 2 deviceNamespace string",
    "GetDeviceResponse": "1 device Device",
}

_TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
}


def _field(field: FieldDescriptor) -> str:
    kind = field.message_type.name if field.message_type is not None else _TYPES[field.type]
    return f"{field.number} {field.name} {kind}{'*' if field.is_repeated else ''}"


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_the_fields_of_a_message(name: str) -> None:
    found = dmi.DESCRIPTOR.message_types_by_name[name].fields
    assert "; ".join(_field(one) for one in found) == FIELDS[name]


def test_there_are_no_other_messages_and_methods() -> None:
    assert set(dmi.DESCRIPTOR.message_types_by_name) == set(FIELDS)
    services = {one.name: [method.name for method in one.methods] for one in dmi.DESCRIPTOR.services_by_name.values()}
    assert services == {
        "DeviceManagerService": ["MapperRegister", "ReportDeviceStatus", "ReportDeviceStates"],
        "DeviceMapperService": [
            "RegisterDevice", "RemoveDevice", "UpdateDevice", "CreateDeviceModel", "RemoveDeviceModel",
            "UpdateDeviceModel", "GetDevice",
        ],
    }  # fmt: skip


def test_the_services_have_kubeedges_names_although_another_interface_has_the_package() -> None:
    """Both are loaded here, as in edgecore."""
    assert (MANAGER, MAPPER) == ("v1beta1.DeviceManagerService", "v1beta1.DeviceMapperService")
    assert deviceplugin.DESCRIPTOR.package == "v1beta1"
    assert deviceplugin.Device.DESCRIPTOR.full_name != dmi.Device.DESCRIPTOR.full_name


@pytest.mark.parametrize(("message", "value"), [("CustomizedValue", "google.protobuf.Any"), ("TwinProperty", "")])
def test_maps_have_texts_as_keys(message: str, value: str) -> None:
    (entry,) = dmi.DESCRIPTOR.message_types_by_name[message].nested_types
    kind = entry.fields_by_name["value"].message_type
    assert entry.GetOptions().map_entry
    assert (kind.full_name if kind is not None else "") == value
