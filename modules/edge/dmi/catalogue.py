"""The stored Devices and DeviceModels, reduced to the fields that mappers need, and the objects that each mapper should
have. Pure.

Objects are kept in their smallest encoded form: a device of ten properties takes about a kilobyte.

They are converted to DMI's messages as in KubeEdge, with the fields that mappers require. Mappers built with KubeEdge's
mapper-framework crash if `desired`, `visitors`, their `configData` or `protocol` is missing, or if a property is not in
the model. So these fields are always set, and such a property is left out. So is a desired value that the model
forbids: nothing else stands between it and the machine.
"""

import logging
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from struct import pack, unpack
from typing import Any, Final, Literal, NamedTuple

import msgspec
from google.protobuf.any_pb2 import Any as AnyValue
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BoolValue, FloatValue, Int64Value, StringValue

from modules.apimachinery.device_properties import desired_fault
from modules.edge.dmi.objects import (
    MappedDevice,
    MappedModel,
    MappedModelProperty,
    MappedProperty,
    Visitors,
    read_mapped_device,
    read_mapped_model,
    with_desired,
)
from modules.edge.dmi.watchdog import patience_of
from protos.dmi.v1beta1 import api_pb2 as dmi

_log = logging.getLogger(__name__)

MAX_OBJECTS: Final = 10_000
"""Largest number of devices, and of models, of one node."""

Kind = Literal["model", "device"]

_LIMIT: Final = 2**63
_PUSH_NAMES: Final = {
    "hostName": "hostname",
    "requestPath": "requestpath",
    "TDEngine": "tdengine",
    "TDEngineClientConfig": "tdEngineClientConfig",
    "dbName": "dbname",
}
"""Names of the CRD that DMI spells differently."""


class Key(NamedTuple):
    """An object that a mapper may have."""

    kind: Kind
    id: str
    """`namespace/name`."""


class Mark(NamedTuple):
    """An object about which the mapper of a protocol has to be informed."""

    protocol: str
    key: Key


class Wanted(NamedTuple):
    """An object in the form that a mapper should have."""

    message: Message
    digest: bytes
    """Of the message."""
    model: str = ""
    """The model that the mapper must have before this device."""
    notes: tuple[str, ...] = ()
    """The parts that are not sent to the mapper, and why."""
    uid: str = ""
    """The Device's, which DMI does not have."""


class _Stored(NamedTuple):
    text: bytes
    protocol: str
    model: str = ""
    patience: float = 0.0


class Catalogue:
    """The devices and models of the node."""

    def __init__(self) -> None:
        self._devices: dict[str, _Stored] = {}
        self._models: dict[str, _Stored] = {}
        self._of_model: dict[str, set[str]] = {}
        self._by_owner: dict[str, dict[str, str]] = {}
        """The desired values of the node's owner, by device."""

    def clear(self) -> None:
        """Forget everything."""
        for kept in (self._devices, self._models, self._of_model, self._by_owner):
            kept.clear()

    def put_device(self, device: MappedDevice) -> set[Mark]:
        """Store a Device, and return the objects to send to mappers."""
        key = device.id
        old = self._devices.get(key)
        if old is None and len(self._devices) >= MAX_OBJECTS:
            return set()
        self._forget_device(key)
        model = self._models.get(device.model)
        protocol = device.protocol or (model.protocol if model is not None else "")
        self._devices[key] = _Stored(msgspec.json.encode(device), protocol, device.model, _patience(device))
        self._of_model.setdefault(device.model, set()).add(key)
        marks = {Mark(one.protocol, Key("model", one.model)) for one in (old, self._devices[key]) if one is not None}
        return marks | {Mark(one.protocol, Key("device", key)) for one in (old, self._devices[key]) if one is not None}

    def put_desired(self, key: str, values: dict[str, str]) -> set[Mark]:
        """Store the desired values that the node's owner has set for a device, and return the objects to send to
        mappers.
        """
        if values:
            self._by_owner[key] = values
        else:
            self._by_owner.pop(key, None)
        stored = self._devices.get(key)
        return set() if stored is None else {Mark(stored.protocol, Key("device", key))}

    def remove_device(self, key: str) -> set[Mark]:
        """Remove a Device, and return the objects to send to mappers."""
        self._by_owner.pop(key, None)
        old = self._devices.get(key)
        if old is None:
            return set()
        self._forget_device(key)
        return {Mark(old.protocol, Key("device", key)), Mark(old.protocol, Key("model", old.model))}

    def put_model(self, model: MappedModel) -> set[Mark]:
        """Store a DeviceModel, and return the objects to send to mappers: the model may change its devices too."""
        old = self._models.get(model.id)
        if old is None and len(self._models) >= MAX_OBJECTS:
            return set()
        self._models[model.id] = _Stored(msgspec.json.encode(model), model.spec.protocol)
        return self._marks_of_model(model.id, {model.spec.protocol, old.protocol if old else ""})

    def remove_model(self, key: str) -> set[Mark]:
        """Remove a DeviceModel, and return the objects to send to mappers."""
        old = self._models.pop(key, None)
        return self._marks_of_model(key, {old.protocol}) if old is not None else set()

    def protocol(self, device: str) -> str:
        """Return the protocol of a device; empty for an unknown one."""
        found = self._devices.get(device)
        return found.protocol if found is not None else ""

    def patience(self, device: str) -> float:
        """Return the seconds after which a device is silent (`watchdog.patience_of`); 0 if it need not report."""
        found = self._devices.get(device)
        return found.patience if found is not None else 0.0

    def devices(self, protocol: str) -> Iterator[tuple[str, float]]:
        """Yield the devices of a protocol, each with the seconds after which it is silent (`watchdog.patience_of`)."""
        return ((key, one.patience) for key, one in self._devices.items() if one.protocol == protocol)

    def keys(self, protocol: str) -> Iterator[Key]:
        """Yield the objects that concern the mapper of a protocol, models first."""
        used = {one.model for one in self._devices.values() if one.protocol == protocol and one.model}
        yield from (Key("model", key) for key, one in sorted(self._models.items())
                    if one.protocol == protocol or key in used)  # fmt: skip
        yield from (Key("device", key) for key, one in sorted(self._devices.items()) if one.protocol == protocol)

    def wanted(self, protocol: str, key: Key) -> Wanted | None:
        """Return an object in the form that the mapper of a protocol should have; None if the mapper should not have
        it.

        A device whose model is missing is not sent, because a mapper cannot start it. Neither is an object that DMI
        cannot express.
        """
        try:
            return self._wanted_model(protocol, key.id) if key.kind == "model" else self._wanted_device(protocol, key)
        except (ValueError, TypeError) as error:
            _log.error("the %s %s cannot be told to its mapper: %s", key.kind, key.id, error)
            return None

    def _wanted_device(self, protocol: str, key: Key) -> Wanted | None:
        stored = self._devices.get(key.id)
        model = self._models.get(stored.model) if stored is not None else None
        if stored is None or model is None or stored.protocol != protocol:
            return None
        device = with_desired(read_mapped_device(stored.text), self._by_owner.get(key.id, {}))
        message, notes = device_message(device, read_mapped_model(model.text))
        return Wanted(message, _digest(message), stored.model, notes, device.metadata.uid)

    def _wanted_model(self, protocol: str, key: str) -> Wanted | None:
        stored = self._models.get(key)
        if stored is None:
            return None
        users = (self._devices[each].protocol for each in self._of_model.get(key, ()))
        if stored.protocol != protocol and protocol not in users:
            return None
        message = model_message(read_mapped_model(stored.text))
        return Wanted(message, _digest(message))

    def _forget_device(self, key: str) -> None:
        old = self._devices.pop(key, None)
        if old is not None:
            users = self._of_model[old.model]
            users.discard(key)
            if not users:
                del self._of_model[old.model]

    def _marks_of_model(self, key: str, protocols: set[str]) -> set[Mark]:
        """Return the objects to send to mappers after a change of a model; a device without a protocol of its own has
        its model's.
        """
        marks: set[Mark] = set()
        for each in sorted(self._of_model.get(key, ())):
            marks |= self.put_device(read_mapped_device(self._devices[each].text))
        return marks | {Mark(protocol, Key("model", key)) for protocol in protocols if protocol}


def _patience(device: MappedDevice) -> float:
    return patience_of(
        [(one.collect_cycle, one.report_cycle) for one in device.spec.properties or () if one.report_to_cloud]
    )


def _digest(message: Message) -> bytes:
    return blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()


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


def device_message(device: MappedDevice, model: MappedModel) -> tuple[dmi.Device, tuple[str, ...]]:
    """Return a device in DMI's form, and the parts that were left out, each with the reason; its model supplies the
    protocol settings that the device lacks.
    """
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
    return message, tuple(notes)


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
    """Return the desired value. Each value for a mapper passes here, whoever wrote it, at each change of the
    Device or its model: a value that the model forbids is left out, as if nothing were desired.
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
    except (ParseError, TypeError, ValueError) as error:
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
