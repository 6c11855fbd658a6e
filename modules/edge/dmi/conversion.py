"""Conversion of Device and DeviceModel to DMI's messages: KubeEdge's conversion, with the fields that mappers require.
Pure.

Mappers built with KubeEdge's mapper-framework crash if `desired`, `visitors`, their `configData` or `protocol` is
missing, or if a property is not in the model. So these fields are always set, and such a property is left out. So is a
desired value that the model forbids: nothing else stands between it and the machine.
"""

from collections.abc import Mapping
from struct import pack, unpack
from typing import Any, Final, NamedTuple

from google.protobuf.any_pb2 import Any as AnyValue
from google.protobuf.wrappers_pb2 import BoolValue, FloatValue, Int64Value, StringValue

from modules.apimachinery.device_properties import desired_fault
from modules.edge.dmi.objects import MappedDevice, MappedModel, MappedModelProperty, MappedProperty, Visitors
from protos.dmi.v1beta1 import api_pb2 as dmi

_LIMIT: Final = 2**63

_PUSH_NAMES: Final = {
    "hostName": "hostname",
    "requestPath": "requestpath",
    "TDEngine": "tdengine",
    "TDEngineClientConfig": "tdEngineClientConfig",
    "dbName": "dbname",
}
"""Names of the CRD that DMI spells differently."""


class DeviceForMapper(NamedTuple):
    """A device for its mapper."""

    device: dmi.Device
    notes: tuple[str, ...]
    """The parts that were left out, and why."""


def model_message(model: MappedModel) -> dmi.DeviceModel:
    """Return a model in DMI's form."""
    properties = [
        dmi.ModelProperty(
            name=one.name,
            description=one.description,
            type=one.type,
            accessMode=one.access_mode,
            minimum=one.minimum,
            maximum=one.maximum,
            unit=one.unit,
        )
        for one in model.spec.properties or ()
    ]
    spec = dmi.DeviceModelSpec(properties=properties)
    return dmi.DeviceModel(name=model.metadata.name, namespace=model.metadata.namespace, spec=spec)


def device_message(device: MappedDevice, model: MappedModel) -> DeviceForMapper:
    """Return a device in DMI's form; its model supplies the protocol settings that the device lacks."""
    notes: list[str] = []
    known = {one.name: one for one in model.spec.properties or ()}
    strange = [one.name for one in device.spec.properties or () if one.name not in known]
    if strange:
        notes.append(f"not in the model {model.id}, and not told to the mapper: {', '.join(strange)[:200]}")
    reports = device.spec.state_report or device.status
    spec = dmi.DeviceSpec(
        deviceModelReference=model.metadata.name,
        protocol=_protocol(device.spec.protocol or Visitors(), model, notes),
        properties=[
            _property(one, known[one.name], notes) for one in device.spec.properties or () if one.name in known
        ],
        methods=[
            dmi.DeviceMethod(name=one.name, description=one.description, propertyNames=one.property_names or ())
            for one in device.spec.methods or ()
        ],
    )
    status = dmi.DeviceStatus()
    if reports is not None:
        status = dmi.DeviceStatus(reportToCloud=reports.report_to_cloud, reportCycle=max(0, reports.report_cycle))
    message = dmi.Device(name=device.metadata.name, namespace=device.metadata.namespace, spec=spec, status=status)
    return DeviceForMapper(message, tuple(notes))


def _protocol(own: Visitors, model: MappedModel, notes: list[str]) -> dmi.ProtocolConfig:
    name = own.protocol_name or model.spec.protocol
    data = {**(model.spec.protocol_config_data or {}), **(own.config_data or {})}
    return dmi.ProtocolConfig(protocolName=name, configData=_customized(data, "protocol.configData", notes))


def _property(one: MappedProperty, model: MappedModelProperty, notes: list[str]) -> dmi.DeviceProperty:
    message = dmi.DeviceProperty(
        name=one.name,
        desired=_desired(one, model, notes),
        visitors=_visitors(one, model, notes),
        reportCycle=max(0, one.report_cycle),
        collectCycle=max(0, one.collect_cycle),
        reportToCloud=one.report_to_cloud,
    )
    if one.push_method:
        _set_push_method(message, one.push_method, notes)
    return message


def _desired(one: MappedProperty, model: MappedModelProperty, notes: list[str]) -> dmi.TwinProperty:
    """Return the desired value. Each one that a mapper receives passes here, whoever wrote it, at each change of the
    Device or its model: one that the model forbids is left out, as if nothing were desired.
    """
    if one.desired is None:
        return dmi.TwinProperty()
    if fault := desired_fault(model, one.name, one.desired.value):
        notes.append(f"the desired value of {one.name[:100]} is not told to the mapper: {fault}")
        return dmi.TwinProperty()
    return dmi.TwinProperty(value=one.desired.value, metadata=one.desired.metadata or {})


def _visitors(one: MappedProperty, model: MappedModelProperty, notes: list[str]) -> dmi.VisitorConfig:
    own, shared = one.visitors or Visitors(), model.visitors or Visitors()
    data = {**(shared.config_data or {}), **(own.config_data or {})}
    where = f"visitors.configData of {one.name}"
    name = shared.protocol_name or own.protocol_name
    return dmi.VisitorConfig(protocolName=name, configData=_customized(data, where, notes))


def _set_push_method(message: dmi.DeviceProperty, given: Mapping[str, Any], notes: list[str]) -> None:
    """Fill in the mapper's own push methods; a method that does not have the CRD's form is left out."""
    from google.protobuf.json_format import ParseDict, ParseError  # noqa: PLC0415 - a quarter of a megabyte

    methods = {_push_name(key): value for key, value in given.items() if key != "anomalyDetection"}
    push = dmi.PushMethod()
    try:
        ParseDict(_renamed(methods, depth=4), push, ignore_unknown_fields=True)
    except (ParseError, TypeError, ValueError, RecursionError) as error:
        notes.append(f"pushMethod of {message.name} is left out: {str(error)[:200]}")
        return
    anomaly = given.get("anomalyDetection")
    if isinstance(anomaly, dict):
        data = _customized(anomaly, f"anomalyDetection of {message.name}", notes).data
        push.anomalyDetection.CopyFrom(dmi.AnomalyDetection(data=data))
    message.pushMethod.CopyFrom(push)


def _renamed(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and depth:
        return {_push_name(key): _renamed(inner, depth - 1) for key, inner in value.items() if inner is not None}
    return value


def _push_name(key: str) -> str:
    return _PUSH_NAMES.get(key, key)


def _customized(data: Mapping[str, Any], where: str, notes: list[str]) -> dmi.CustomizedValue:
    """Return a free configuration. A value that DMI cannot express is left out, and the others stay (KubeEdge refuses
    the whole device).
    """
    packed: dict[str, AnyValue] = {}
    for key, value in sorted(data.items()):
        wrapped = _wrapped(value)
        if wrapped is None:
            notes.append(f"{key[:100]} in {where} is left out: a text, a number, true or false is wanted")
            continue
        packed[key] = AnyValue()
        packed[key].Pack(wrapped, deterministic=True)
        if isinstance(value, float) and not isinstance(wrapped, Int64Value) and wrapped.value != value:
            notes.append(f"{key[:100]} in {where} is told as {wrapped.value}: mappers take 32 bits of a fraction")
    return dmi.CustomizedValue(data=packed)


def _wrapped(value: Any) -> StringValue | BoolValue | FloatValue | Int64Value | None:
    """Return a JSON value as mappers read it: KubeEdge's numbers are FloatValues; its framework reads Int64Values too,
    and drops DoubleValues.
    """
    if isinstance(value, str):
        return StringValue(value=value)
    if isinstance(value, bool):
        return BoolValue(value=value)
    if isinstance(value, int) and -_LIMIT <= value < _LIMIT:
        exact = _is_float32(float(value)) and int(float(value)) == value
        return FloatValue(value=value) if exact else Int64Value(value=value)
    if isinstance(value, float):
        try:
            return FloatValue(value=unpack("<f", pack("<f", value))[0])
        except OverflowError:
            return None
    return None


def _is_float32(value: float) -> bool:
    return bool(unpack("<f", pack("<f", value))[0] == value)
