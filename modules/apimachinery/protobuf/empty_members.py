"""Members that Kubernetes' JSON leaves out when they are empty (`omitempty`): lists, maps, zeros and falses."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from modules.apimachinery.protobuf.decoding import MessageField, fields_of, message_of

_METADATA: Final = "meta.v1.ObjectMeta"
_TEMPLATE: Final = "core.v1.PodTemplateSpec"
_SHOWN: Final = frozenset((
    ("batch.v1.PodFailurePolicy", "rules"), ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "values"),
    ("batch.v1.SuccessPolicy", "rules"), ("core.v1.ContainerImage", "names"),
    ("core.v1.NodeSelector", "nodeSelectorTerms"), ("core.v1.PodSpec", "containers"),
    ("core.v1.ProjectedVolumeSource", "sources"), ("core.v1.TopologySelectorLabelRequirement", "values"),
    ("discovery.v1.Endpoint", "addresses"), ("discovery.v1.EndpointSlice", "endpoints"),
    ("discovery.v1.EndpointSlice", "ports"), ("rbac.v1.ClusterRole", "rules"), ("rbac.v1.PolicyRule", "verbs"),
    ("rbac.v1.Role", "rules"), ("storage.v1.CSINodeDriver", "topologyKeys"), ("storage.v1.CSINodeSpec", "drivers"),
))  # fmt: skip
"""Messages and their lists that JSON has even when they are empty."""


def without_empty_members(obj: dict[str, Any], stored: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return an object as kube-apiserver stores it: without empty members that its types leave out. Of a kind that has
    no message here, only the metadata are looked at. Parts of which nothing is left out are the given ones.

    Args:
        obj: the object.
        stored: its present state; what the object shares with it, such as the spec beside a new status, is taken as it
            is.
    """
    message = message_of(str(obj.get("apiVersion")), str(obj.get("kind")))
    if message is not None:
        new = {name: member for name, member in obj.items() if member is not stored.get(name)}
        kept = _kept(message, new)
        if kept is new:
            return obj
        return {name: kept.get(name, member) for name, member in obj.items() if name in kept or name not in new}
    metadata = obj.get("metadata")
    return {**obj, "metadata": _kept(_METADATA, metadata)} if isinstance(metadata, dict) else obj


def template_without_empty_members(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template of a pod as kube-apiserver stores it."""
    return _kept(_TEMPLATE, template)


@cache
def _by_name(message: str) -> Mapping[str, MessageField]:
    found: dict[str, MessageField] = {}
    for field in fields_of(message).values():
        found.update({field.name: field} if field.name else _by_name(field.kind))
    return found


def _kept(message: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the stored form of a value; the value itself, and each part, if nothing is left out of it."""
    fields, kept, is_same = _by_name(message), dict[str, Any](), True
    for name, member in value.items():
        field = fields.get(name)
        if field is not None and _is_left_out(message, field, member):
            is_same = False
            continue
        kept[name] = stored = member if field is None else _member(field, member)
        is_same = is_same and stored is member
    return value if is_same else kept


def _is_left_out(message: str, field: MessageField, member: Any) -> bool:
    if field.form:
        return isinstance(member, (list, dict)) and not member and (message, field.name) not in _SHOWN
    return field.is_never_zero and not member


def _member(field: MessageField, member: Any) -> Any:
    if not field.is_message:
        return member
    if field.form == "[" and isinstance(member, list):
        stored = [_kept(field.kind, each) if isinstance(each, dict) else each for each in member]
        return member if all(new is old for new, old in zip(stored, member, strict=True)) else stored
    if field.form == "{" and isinstance(member, dict):
        return {key: _kept(field.kind, each) if isinstance(each, dict) else each for key, each in member.items()}
    return _kept(field.kind, member) if isinstance(member, dict) and not field.form else member
