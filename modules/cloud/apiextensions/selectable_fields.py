"""The `selectableFields` of custom kinds: what field selectors may name beside name and namespace (KEP-4358)."""

import re
from collections.abc import Iterator
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Cause, duplicate, invalid, required, too_many

_PATH: Final = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_-]*){1,20}")
"""A JSON path without array notation."""
_TYPES: Final = ("boolean", "integer", "string")
_MOST: Final = 8


def selectable_faults(fields: list[JsonObject], schema: Any, path: str) -> Iterator[Cause]:
    """Yield the faults of a version's `selectableFields` (`ValidateCustomResourceSelectableFields`).

    Args:
        fields: as given.
        schema: the version's `openAPIV3Schema`.
        path: their place in the definition.
    """
    known = set[str]()
    for at, field in enumerate(fields):
        place = f"{path}[{at}].jsonPath"
        given = field.get("jsonPath")
        if not given:
            yield required(place)
            continue
        if not _PATH.fullmatch(given):
            yield invalid(
                place, given, "is an invalid path: names after dots are wanted, array notation is not allowed"
            )
            continue
        found = _schema_at(schema, given)
        if found is None:
            yield invalid(place, given, "is an invalid path: does not refer to a valid field")
            continue
        if given.split(".")[1] == "metadata":
            yield invalid(place, given, "must not point to fields in metadata")
        if found.get("type") not in _TYPES:
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats"
            )
            yield invalid(place, given, f"{why} are allowed.")
        if given in known:
            yield duplicate(place, given)
        known.add(given)
    if len(known) > _MOST:
        yield too_many(path, len(known), _MOST)


def _schema_at(schema: Any, given: str) -> JsonObject | None:
    """Return the schema of a field; None without one."""
    found = schema
    for name in given.split(".")[1:]:
        properties = found.get("properties") if isinstance(found, dict) else None
        found = properties.get(name) if isinstance(properties, dict) else None
    return found if isinstance(found, dict) else None


def selectable_fields(version: JsonObject) -> tuple[str, ...]:
    """Return the names that selectors have for the fields of a valid version: `spec.color`."""
    return tuple(one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ())
