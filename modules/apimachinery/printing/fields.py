"""Reads plain JSON objects, where any part may be missing."""

from functools import lru_cache
from typing import Any

JsonObject = dict[str, Any]


@lru_cache(256)
def _keys(path: str) -> list[str]:
    """Return the keys of a path; most are asked for many objects."""
    return path.split(".")


def value_at(obj: JsonObject, path: str) -> Any:
    """Return the value at a dotted path; None if a part of the path is missing."""
    found: Any = obj
    for key in _keys(path):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def text_at(obj: JsonObject, path: str) -> str:
    """Return the value at a path as text: empty if it is missing, booleans as in JSON."""
    found: Any = obj
    for key in _keys(path):
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)


def list_at(obj: JsonObject, path: str) -> list[Any]:
    """Return the list at a path; empty if the value is missing or of another type."""
    found = value_at(obj, path)
    return found if isinstance(found, list) else []


def map_at(obj: JsonObject, path: str) -> JsonObject:
    """Return the object at a path; empty if the value is missing or of another type."""
    found: Any = obj
    for key in _keys(path):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def objects_at(obj: JsonObject, path: str) -> list[JsonObject]:
    """Return the objects of the list at a path; other items are left out."""
    return [each for each in list_at(obj, path) if isinstance(each, dict)]
