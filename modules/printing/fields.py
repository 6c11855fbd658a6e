"""Reading plain JSON objects that may lack any part of what is looked for."""

from typing import Any

JsonObject = dict[str, Any]


def value_at(obj: JsonObject, path: str) -> Any:
    """What is under keys with dots between them; None when any of them is missing."""
    found: Any = obj
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def text_at(obj: JsonObject, path: str) -> str:
    """The same as text; empty for what is missing, `true` and `false` as JSON has them."""
    found = value_at(obj, path)
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)


def list_at(obj: JsonObject, path: str) -> list[Any]:
    """The same as a list; empty for what is missing or none."""
    found = value_at(obj, path)
    return found if isinstance(found, list) else []


def map_at(obj: JsonObject, path: str) -> JsonObject:
    """The same as an object; empty for what is missing or none."""
    found = value_at(obj, path)
    return found if isinstance(found, dict) else {}


def objects_at(obj: JsonObject, path: str) -> list[JsonObject]:
    """The same as a list of objects; what is none is left out."""
    return [each for each in list_at(obj, path) if isinstance(each, dict)]
