"""Members that Kubernetes' JSON leaves out when they are empty (`omitempty`): lists, maps, zeros, falses and texts."""

from collections.abc import Mapping
from functools import cache
from operator import is_
from types import MappingProxyType
from typing import Any, Final

from modules.apimachinery.protobuf.decoding import MessageField, fields_of, message_of

_METADATA: Final = "meta.v1.ObjectMeta"
_TEMPLATE: Final = "core.v1.PodTemplateSpec"
_SHOWN: Final = ((_METADATA, "name"), (_METADATA, "managedFields"), ("autoscaling.v2.HPAScalingRules", "policies"))
"""An empty name stays, as the rules of metadata look at it, and so do no managers: an update asks for that. No policies
are refused, while those that are not there have a default.
"""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def without_empty_members(obj: dict[str, Any], stored: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """Return an object as kube-apiserver stores it: without empty members that its types leave out. Of a kind that has
    no message here, only the metadata are looked at. Unchanged parts are the given ones.

    Args:
        obj: the object.
        stored: its present state; what the object shares with it, such as the spec beside a new status, is taken as it
            is.
    """
    message = message_of(str(obj.get("apiVersion")), str(obj.get("kind")))
    if message is not None:
        return _kept(message, obj, stored)
    metadata = obj.get("metadata")
    return {**obj, "metadata": _kept(_METADATA, metadata)} if isinstance(metadata, dict) else obj


def template_without_empty_members(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template of a pod as kube-apiserver stores it."""
    return _kept(_TEMPLATE, template)


@cache
def fields_to_omit(message: str) -> Mapping[str, MessageField]:
    """Return the fields of a message that may be left out, or have parts, by name."""
    found: dict[str, MessageField] = {}
    for field in fields_of(message).values():
        if not field.name:
            found.update(fields_to_omit(field.kind))
        elif field.form or field.is_never_zero or field.is_message:
            found[field.name] = field
    return found


def _kept(message: str, value: dict[str, Any], stored: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """Return the stored form of a value; the value itself, and each part, if nothing is left out of it."""
    fields, kept = fields_to_omit(message), value
    for name, member in value.items():
        field = fields.get(name)
        if field is None:
            continue
        if not member and is_left_out(message, field, member):
            kept = dict(value) if kept is value else kept
            del kept[name]
        elif member and field.is_message and member is not (before := stored.get(name)):
            part = _part(field, member, before)
            if part is not member:
                kept = dict(value) if kept is value else kept
                kept[name] = part
    return kept


def is_left_out(message: str, field: MessageField, empty: Any) -> bool:
    """Return whether an empty value of a field is left out."""
    has_form = isinstance(empty, (list, dict)) if field.form else True
    return has_form and field.is_never_zero and (message, field.name) not in _SHOWN


def _part(field: MessageField, member: Any, stored: Any) -> Any:
    """Return the stored form of a member that has messages."""
    if field.form == "[" and isinstance(member, list):
        known = set(map(id, stored)) if isinstance(stored, list) else ()
        parts = [
            _kept(field.kind, each) if id(each) not in known and isinstance(each, dict) else each for each in member
        ]
        return member if all(map(is_, parts, member)) else parts
    if field.form == "{" and isinstance(member, dict):
        return {key: _kept(field.kind, each) if isinstance(each, dict) else each for key, each in member.items()}
    if field.form or not isinstance(member, dict):
        return member
    return _kept(field.kind, member, stored if isinstance(stored, dict) else _NOTHING)
