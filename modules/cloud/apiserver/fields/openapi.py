"""The schemas in the OpenAPI documents of the API server."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from modules.apimachinery.autoscaler_versions import is_of_older
from modules.apimachinery.event_versions import field_name, is_newer
from modules.apimachinery.resources import Resource
from modules.cloud.apiextensions.openapi import custom_schemas
from modules.cloud.apiserver.fields.types import type_of_several
from modules.cloud.apiserver.fields.validation import field_types, known_fields, merge_of

_PLAIN: Final = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
}
_OF_SEVERAL: Final = {
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
}
_SEVERAL: Final[dict[str, Any]] = {
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
}
_SEVERAL_IN_V2: Final[dict[str, Any]] = {
    "IntOrString": {"format": "int-or-string", "type": "string"},
    "Quantity": {"type": "string"},
}
"""v2 has no word for several forms; Kubernetes' document has these."""
_VERSION: Final = re.compile(r"(V\d)")
_OF_EVENTS: Final = "io.k8s.api.events.v1.Event"
_DESCRIPTION: Final = "What each field means: https://kubernetes.io/docs/reference/kubernetes-api/"


def schemas_of(resources: Iterable[Resource], *, is_v2: bool = False) -> dict[str, Any]:
    """Return the schemas of the resources' kinds, and of all types that they consist of, by name."""
    several = _SEVERAL_IN_V2 if is_v2 else _SEVERAL
    found: dict[str, Any] = {_OF_SEVERAL[name]: schema for name, schema in several.items()}
    for resource in resources:
        types = field_types(f"{resource.kind}.{resource.version}" if is_of_older(resource) else resource.kind)
        root = _name(next(iter(types)))
        for name, fields in types.items():
            properties = {
                field: _schema(kind, type_of_several(name, field)) | _tags(msgspec.to_builtins(merge_of(name, field)))
                for field, kind in sorted(fields.items())
            }
            atomic = _tags({"map-type": "atomic"}) if name in known_fields().atomic else {}
            found.setdefault(_name(name), {"type": "object", "properties": properties, **atomic})
        if is_newer(resource):
            properties = {field_name(field): of for field, of in found[root]["properties"].items()}
            root = _OF_EVENTS
            found[root] = {"type": "object", "properties": dict(sorted(properties.items()))}
        kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
        found[root] = {**found[root], "description": _DESCRIPTION, "x-kubernetes-group-version-kind": [kind]}
    return found


def _schema(kind: str, of_several: str) -> dict[str, Any]:
    """Return the schema of a type; `of_several` is the name of one with several forms (`type_of_several`)."""
    if kind.startswith("["):
        return {"type": "array", "items": _schema(kind[1:], of_several)}
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _schema(kind[1:], of_several)}
    if of_several:
        return {"allOf": [{"$ref": f"#/components/schemas/{_OF_SEVERAL[of_several]}"}]}
    if kind in _PLAIN:
        return _PLAIN[kind]
    return {"type": "object"} if kind == "object" else {"allOf": [{"$ref": f"#/components/schemas/{_name(kind)}"}]}


def _tags(merge: dict[str, Any]) -> dict[str, Any]:
    """Return how something is merged as extensions of OpenAPI."""
    return {f"x-kubernetes-{name}": value for name, value in merge.items()}


def _name(kind: str) -> str:
    """Return a type's name in Kubernetes' form, such as `io.k8s.api.v1.PodSpec`; kubectl shows its last part."""
    group, version, name = _VERSION.split(kind, maxsplit=1)
    return f"io.k8s.api.{f'{group.lower()}.' if group else ''}{version.lower()}.{name}"


def openapi_schemas(resources: Sequence[Resource], *, is_v2: bool = False) -> dict[str, Any]:
    """Return the schemas of resources, by name: of the built-in kinds, and of CustomResourceDefinitions.

    Args:
        resources: the resources.
        is_v2: whether they are for a document of OpenAPI v2.
    """
    found = schemas_of((one for one in resources if not one.is_custom), is_v2=is_v2)
    for one in resources:
        if one.is_custom:
            found |= custom_schemas(one, is_v2=is_v2)
    return found
