"""Values of objects that nobody has validated: an earlier version, a node or a user may have written anything."""

from typing import Any

from modules.apimachinery.kinds import JsonObject


def as_object(value: Any) -> JsonObject:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list; none for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_text(value: Any, longest: int | None = None) -> str:
    """Return a text, at most so many characters of it; "" for anything else."""
    return value[:longest] if isinstance(value, str) else ""


def member_of(obj: JsonObject, name: str) -> JsonObject:
    """Return a member that is to be an object; an empty one for anything else."""
    value = obj.get(name)
    return value if isinstance(value, dict) else {}
