"""The OpenAPI v3 schemas of custom resources, which `explain` reads."""

from typing import Any, Final

from modules.apimachinery.resources import Resource

_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TEXTS: Final = (
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
)
_MAPS: Final = ("labels", "annotations")


def custom_schemas(resource: Resource) -> list[tuple[str, Any]]:
    """Return the schemas of a custom resource and of its metadata, with their names."""
    text = {"type": "string"}
    metadata = dict.fromkeys(_TEXTS, text)
    maps = {name: {"type": "object", "additionalProperties": text} for name in _MAPS}
    group = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    schema = resource.schema or {}
    properties = {
        "apiVersion": text,
        "kind": text,
        **(schema.get("properties") or {}),
        "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_METADATA}"}]},
    }
    name = ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
    return [
        (name, {**schema, "properties": properties, "x-kubernetes-group-version-kind": [group]}),
        (_METADATA, {"type": "object", "properties": {**metadata, **maps}}),
    ]
