"""CustomResourceDefinitions of this project's own modules, as objects."""

from typing import Any, Final

from modules.apimachinery.kinds import JsonObject, Kind

AGE: Final = ("Age", "date", ".metadata.creationTimestamp")
"""The column that each table of kubectl ends with: name, type, path."""


def schema_of(*required: str, **members: Any) -> JsonObject:
    """Return the schema of an object with these members."""
    made: JsonObject = {"type": "object", "properties": members}
    return {**made, "required": list(required)} if required else made


def list_of(items: JsonObject, most: int = 0) -> JsonObject:
    """Return the schema of a list, of at most so many items; 0: of any number."""
    return {"type": "array", "items": items, **({"maxItems": most} if most else {})}


def choice_of(*values: str) -> JsonObject:
    """Return the schema of one of these texts."""
    return {"type": "string", "enum": list(values)}


def definition_of(
    kind: Kind, members: JsonObject, *columns: tuple[str, str, str], has_status: bool = False, needs_spec: bool = False
) -> JsonObject:
    """Return the definition of a kind that has one version.

    Args:
        kind: the kind.
        members: schemas of spec and status.
        columns: of kubectl's table.
        has_status: whether the status is a subresource.
        needs_spec: whether an object without spec is refused.
    """
    group, _, version = kind.api_version.partition("/")
    names: JsonObject = {
        "kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": kind.singular,
    }  # fmt: skip
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    text = {"type": "string"}
    identity = {"apiVersion": text, "kind": text, "metadata": {"type": "object"}}
    schema: JsonObject = {"type": "object", "properties": {**identity, **members}}
    if needs_spec:
        schema["required"] = ["spec"]
    served: JsonObject = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": name, "type": of, "jsonPath": path} for name, of, path in columns],
    }
    if has_status:
        served["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [served],
        },
    }
