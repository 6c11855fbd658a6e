"""The OpenAPI schemas of custom resources, which `explain` reads."""

from typing import Any, Final

from modules.apimachinery.resources import Resource

_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OF_TYPE: Final = {
    "apiVersion": "APIVersion defines the version of the kind's schema that the object has.",
    "kind": "Kind names the type of the object.",
}
_OF_METADATA: Final = "Standard object's metadata."
_TEXTS: Final = {
    "name": "Name is the object's own among those of its kind, and of its namespace if it has one.",
    "namespace": "Namespace is the one that the object is in; it never changes.",
    "generateName": "GenerateName is what the name begins with that the server makes for an object without one.",
    "uid": "UID is the object's own among all that have ever been; the server sets it.",
    "resourceVersion": "ResourceVersion names a state of the object; the server sets it with each write.",
    "creationTimestamp": "CreationTimestamp is a timestamp that the server sets when it stores the object first.",
    "deletionTimestamp": "DeletionTimestamp is a timestamp that the server sets when the object's deletion begins.",
}
_MAPS: Final = {
    "labels": "Labels are names and values by which objects are selected.",
    "annotations": "Annotations are names and values for people and programs.",
}
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_NOT_IN_V2: Final = ("allOf", "anyOf", "nullable", "not", "oneOf")


def custom_schemas(resource: Resource, *, is_v2: bool = False) -> list[tuple[str, Any]]:
    """Return the schemas of a custom resource and of its metadata, with their names.

    Args:
        resource: the resource.
        is_v2: whether they are for a document of OpenAPI v2, whose clients refuse fields beside those of a schema. So
            it has no properties where there may be others, as in Kubernetes.
    """
    name = ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    schema = resource.schema or {}
    if is_v2 and schema.get(_OPEN):
        schema = {"type": "object"}
    else:
        schema = _for_v2(schema) if is_v2 else schema
        types = {field: {"type": "string", "description": about} for field, about in _OF_TYPE.items()}
        metadata = {"description": _OF_METADATA, "allOf": [{"$ref": f"#/components/schemas/{_METADATA}"}]}
        schema = {**schema, "properties": {**(schema.get("properties") or {}), **types, "metadata": metadata}}
    return [(name, {**schema, "x-kubernetes-group-version-kind": [kind]}), (_METADATA, _metadata())]


def _metadata() -> dict[str, Any]:
    text = {"type": "string"}
    texts = {field: {**text, "description": about} for field, about in _TEXTS.items()}
    maps = {
        field: {"type": "object", "additionalProperties": text, "description": about} for field, about in _MAPS.items()
    }
    return {"type": "object", "description": _OF_METADATA, "properties": {**texts, **maps}}


def _for_v2(schema: Any) -> Any:
    """Return a structural schema in the form of v2; no deeper than schemas are."""
    if not isinstance(schema, dict):
        return schema
    gone = {*_NOT_IN_V2}
    if schema.get("nullable"):
        gone |= {"type", "items", "properties"}
    if schema.get(_OPEN):
        gone |= {"items", "properties"} | ({"type"} if schema.get("type") in ("object", "array") else set())
    kept = {name: value for name, value in schema.items() if name not in gone}
    if "properties" in kept:
        kept["properties"] = {name: _for_v2(value) for name, value in kept["properties"].items()}
    return kept | {name: _for_v2(kept[name]) for name in ("items", "additionalProperties") if name in kept}
