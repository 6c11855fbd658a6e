"""Devices and DeviceModels of `v1alpha2` in the form of `v1beta1` (KubeEdge changed it in its release 1.15).

The API server keeps such objects as they were applied: their definition converts nothing but `apiVersion`. This module
converts them when they are read: for nodes, and for the condition of the DeviceStatus.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.unvalidated import as_object, as_objects

_TYPES: Final = ("int", "string", "double", "float", "boolean", "bytes")
"""The members of a property's type in v1alpha2; in v1beta1 the type is the same word in capitals."""
_RULES: Final = ("accessMode", "minimum", "maximum", "unit")
_PROTOCOLS: Final = ("opcua", "modbus", "bluetooth")
_CUSTOMIZED: Final = "customizedProtocol"
_OLD_SPEC: Final = ("nodeSelector", "propertyVisitors", "data")
"""Members of a Device's spec that v1beta1 does not have."""
_GROUPS: Final = frozenset({"common", "com", "tcp", "customizedValues", "dataConverter"})
"""Settings of settings, whose members stand beside the others in v1beta1: a mapper gets texts, numbers and booleans by
their names, and nothing below them."""
_CYCLES: Final = ("reportCycle", "collectCycle")
_HOST: Final = ("", "kubernetes.io/hostname", "metadata.name")
"""Keys of a node selector that name a node; KubeEdge looked at no key."""


class Converted(NamedTuple):
    """An object in the form of v1beta1."""

    object: JsonObject
    is_old: bool
    """Whether it had the form of v1alpha2."""
    unused: tuple[str, ...] = ()
    """The fields that have no place in v1beta1, as text for people."""


def converted_device(obj: JsonObject) -> Converted:
    """Return a Device in the form of v1beta1; v1beta1 stays as it is."""
    spec, status = as_object(obj.get("spec")), as_object(obj.get("status"))
    protocol = as_object(spec.get("protocol"))
    old_protocol = [name for name in (*_PROTOCOLS, _CUSTOMIZED, "common") if name in protocol]
    desired = [twin for twin in as_objects(status.get("twins")) if "desired" in twin]
    if not old_protocol and not desired and not any(name in spec for name in _OLD_SPEC):
        return Converted(obj, is_old=False)
    unused: list[str] = []
    made = {name: value for name, value in spec.items() if name not in _OLD_SPEC}
    if old_protocol:
        made["protocol"] = _protocol(protocol, unused)
    if not spec.get("nodeName") and "nodeSelector" in spec:
        node = _selected_node(spec["nodeSelector"])
        made |= {"nodeName": node} if node else {}
        if not node:
            unused.append("spec.nodeSelector does not name one node: set spec.nodeName")
    if "data" in spec:
        unused.append("spec.data: set reportToCloud and pushMethod of each property")
    properties = _properties(spec, desired, unused)
    made |= {"properties": properties} if properties or "properties" in spec else {}
    return Converted({**obj, "spec": made}, is_old=True, unused=tuple(unused))


def converted_model(obj: JsonObject) -> Converted:
    """Return a DeviceModel in the form of v1beta1; v1beta1 stays as it is."""
    spec = as_object(obj.get("spec"))
    properties = spec.get("properties")
    if not isinstance(properties, list) or not any(isinstance(as_object(one).get("type"), dict) for one in properties):
        return Converted(obj, is_old=False)
    unused: list[str] = []
    made = [_model_property(one, unused) for one in as_objects(properties)]
    return Converted({**obj, "spec": {**spec, "properties": made}}, is_old=True, unused=tuple(unused))


def _model_property(old: JsonObject, unused: list[str]) -> JsonObject:
    of, where = old.get("type"), f"property {str(old.get('name'))[:80]!r} of the model"
    if not isinstance(of, dict):
        return old
    made = {name: value for name, value in old.items() if name != "type"}
    named = [name for name in of if name in _TYPES]
    if len(named) != 1:
        unused.append(f"{where}: its type must be one of {', '.join(_TYPES)}")
        return made
    rules = as_object(of[named[0]])
    made["type"] = named[0].upper()
    made |= {name: _text(rules[name]) for name in _RULES if rules.get(name) is not None}
    if rules.get("defaultValue") is not None:
        unused.append(f"{where}: defaultValue; give the Device a desired value")
    return made


def _protocol(old: JsonObject, unused: list[str]) -> JsonObject:
    """Return the protocol of a Device, with the mapper's settings in `configData`."""
    name, config = _one_protocol(old)
    if not name:
        unused.append("spec.protocol names no protocol, or several")
    made = {each: old[each] for each in ("protocolName", "configData") if each in old}
    return {"protocolName": name, "configData": _flat(config, old, "common", "spec.protocol", unused)} | made


def _one_protocol(old: JsonObject) -> tuple[str, dict[str, JsonObject]]:
    """Return the name and the settings of the protocol that an object names, by their path; two empty ones if it names
    not one.
    """
    named = [name for name in (*_PROTOCOLS, _CUSTOMIZED) if name in old]
    if len(named) != 1:
        return "", {}
    settings = as_object(old[named[0]])
    if named[0] != _CUSTOMIZED:
        return named[0], {named[0]: settings}
    return _text(settings.get("protocolName")), {f"{_CUSTOMIZED}.configData": as_object(settings.get("configData"))}


def _flat(own: dict[str, JsonObject], old: JsonObject, shared: str, where: str, unused: list[str]) -> JsonObject:
    """Return the settings of a protocol and those that all protocols share, by their own names, as mappers get them.

    Args:
        own: those of the protocol, by their path.
        old: the object with both.
        shared: the member of `old` with the others.
        where: the path of `old`.
        unused: gets the settings that have no place beside the others.
    """
    made: JsonObject = {}
    for path, settings in (*own.items(), *([(shared, old[shared])] if shared in old else [])):
        _add_settings(made, settings, f"{where}.{path}", unused)
    return made


def _add_settings(made: JsonObject, settings: Any, path: str, unused: list[str]) -> None:
    """Add settings by their own names; the first of a name counts."""
    if not isinstance(settings, dict):
        unused.append(f"{path}: an object is wanted")
        return
    for name, value in settings.items():
        inner = f"{path}.{name[:80]}"
        if isinstance(value, dict) and name in _GROUPS:
            _add_settings(made, value, inner, unused)
        elif isinstance(value, dict | list):
            unused.append(f"{inner}: mappers get texts, numbers and booleans alone")
        elif value is not None and made.setdefault(name, value) != value:
            unused.append(f"{inner}: there is another {name[:80]}")


def _properties(spec: JsonObject, twins: list[JsonObject], unused: list[str]) -> list[JsonObject]:
    """Return the properties of a Device, from its properties in the new form, its visitors and its desired values."""
    made = {_text(one.get("name")): one for one in as_objects(spec.get("properties"))}
    given = frozenset(made)
    for visitor in as_objects(spec.get("propertyVisitors")):
        name = _text(visitor.get("propertyName"))
        if name not in given:
            made[name] = _property(name, visitor, unused)
    for twin in twins:
        name, desired = _text(twin.get("propertyName")), as_object(twin.get("desired"))
        if name not in given and desired.get("value") not in (None, ""):
            wanted: JsonObject = {"desired": {**desired, "value": _text(desired["value"])}, "reportToCloud": True}
            made[name] = {"name": name, **made.get(name, {}), **wanted}
    return list(made.values())


def _property(name: str, visitor: JsonObject, unused: list[str]) -> JsonObject:
    protocol, own = _one_protocol(visitor)
    config = _flat(own, visitor, "customizedValues", f"the visitor of {name[:80]!r}", unused)
    cycles: JsonObject = {each: visitor[each] for each in _CYCLES if each in visitor}
    return {"name": name, **cycles, "visitors": {"protocolName": protocol, "configData": config}}


def _selected_node(selector: Any) -> str:
    """Return the only node that a node selector can mean, or ""."""
    terms = as_objects(as_object(selector).get("nodeSelectorTerms"))
    wanted = [one for term in terms for one in _requirements(term)]
    if len(terms) != 1 or len(wanted) != 1 or wanted[0].get("operator") != "In" or wanted[0].get("key") not in _HOST:
        return ""
    values = wanted[0].get("values")
    return _text(values[0]) if isinstance(values, list) and len(values) == 1 else ""


def _requirements(term: JsonObject) -> Iterator[JsonObject]:
    for field in ("matchExpressions", "matchFields"):
        yield from as_objects(term.get(field))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, dict | list | bool) else str(value)
