"""JSON merge patches (RFC 7396)."""

from typing import Any


def merge_patch(before: Any, after: Any) -> Any:
    """Return the JSON merge patch (RFC 7396) that makes `after` of `before`; both are objects."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = merge_patch(old, value)
            if inner:
                patch[key] = inner
        elif key not in before or old != value or type(old) is not type(value):
            patch[key] = value
    return patch
