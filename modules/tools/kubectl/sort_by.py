"""kubectl's `--sort-by=PATH`: sorts objects by the value at a path."""

import re
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any, Final

from edged.api.quantity import QuantityError, parse_quantity
from modules.tools.kubectl.jsonpath import JsonPath, relaxed
from modules.tools.kubectl.jsonpath_parser import JsonPathError
from modules.tools.printing.fields import JsonObject

_CHUNKS: Final = re.compile(r"\d+|\D", re.ASCII | re.DOTALL)


def sorted_by(objects: Sequence[JsonObject], expression: str) -> list[JsonObject]:
    """Return the objects in the order of the values at a path; those without a value come first.

    Numbers and quantities are compared by value, other texts naturally (`web-2` before `web-10`), which is right for
    times in UTC. Objects with equal values keep their order.

    Raises:
        JsonPathError: the path cannot be read, no object has a value there, or values cannot be compared.
    """
    path = JsonPath(relaxed(expression))
    found = [(_first(path.values(obj)), obj) for obj in objects]
    if found and all(value is None for value, _ in found):
        raise JsonPathError(f'couldn\'t find any field with path "{relaxed(expression)}" in the list of objects')
    order = cmp_to_key(_compare)
    return [obj for _, obj in sorted(found, key=lambda pair: order(pair[0]))]


def _first(values: list[Any]) -> Any:
    value = values[0] if values else None
    if isinstance(value, dict | list):
        raise JsonPathError(f"unsortable interface: {'map' if isinstance(value, dict) else 'slice'}")
    return value


def _compare(left: Any, right: Any) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, str) and isinstance(right, str):
        try:
            return _order(parse_quantity(left), parse_quantity(right))
        except QuantityError:
            return _order(_natural(left), _natural(right))
    if isinstance(left, str) or isinstance(right, str):
        raise JsonPathError("unsortable interface: texts among numbers")
    return _order(left, right)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key by which numbers within a text are compared by value."""
    return [_chunk(chunk) for chunk in _CHUNKS.findall(text)]


def _chunk(chunk: str) -> tuple[int, int, str]:
    if not chunk.isdecimal() or not chunk.isascii():
        return ord(chunk), 0, ""
    digits = chunk.lstrip("0")
    return ord("0"), len(digits), digits
