"""Finds names that an object in a JSON text has twice: decoding keeps the last value only, the text has all."""

import json
from typing import Any


class _RepeatedNameError(ValueError):
    pass


def repeats_names(text: bytes) -> bool:
    """Return whether an object in a JSON text has a name twice, or the text cannot be read."""
    try:
        json.loads(text, object_pairs_hook=_checked)
    except (ValueError, RecursionError):
        return True
    return False


def _checked(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedNameError
