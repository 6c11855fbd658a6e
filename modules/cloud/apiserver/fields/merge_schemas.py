"""The merge strategies of the fields of built-in kinds, for strategic merge patches."""

from functools import cache
from typing import Final

from modules.apimachinery.merge_schema import MergeField, MergeSchema
from modules.cloud.apiserver.fields.validation import known_fields, merge_of

_RETAIN_KEYS: Final = "retainKeys"
"""A strategy for clients, who name the keys that an object keeps in their patches."""


def schema_of(kind: str) -> MergeSchema:
    """Return the schema of a kind; one without strategies for an unknown kind."""
    return _schemas().get(known_fields().kinds.get(kind, ""), MergeSchema())


@cache
def _schemas() -> dict[str, MergeSchema]:
    """Return the schemas of all types. Some consist of themselves, so each is made before its fields."""
    types = known_fields().types
    fields = {name: dict[str, MergeField]() for name in types}
    schemas = {name: MergeSchema(found) for name, found in fields.items()}
    for name, found in fields.items():
        for field, of in types[name].items():
            merge = merge_of(name, field)
            strategy = next((one for one in merge.patch_strategy.split(",") if one != _RETAIN_KEYS), "")
            if strategy or of.lstrip("[{") in schemas:
                found[field] = MergeField(_schema(schemas, of), strategy, merge.patch_merge_key)
    return schemas


def _schema(schemas: dict[str, MergeSchema], of: str) -> MergeSchema:
    """Return the schema of a field's type: of its elements if it is a list."""
    schema = schemas.get(of.lstrip("[{"), MergeSchema())
    return MergeSchema(values=MergeField(schema)) if of.startswith("{") else schema
