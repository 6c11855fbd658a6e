"""Sets of fields, and their form FieldsV1 in `metadata.managedFields`.

A path is a tuple of elements as FieldsV1 writes them: `f:NAME` is a field or a key of a map, `k:{…}` an element of a
list by its keys, `v:VALUE` an element of a set. A set of fields is a frozen set of paths.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json

Path = tuple[str, ...]
FieldSet = frozenset[Path]

NOTHING: Final[FieldSet] = frozenset()
SELF: Final = "."
"""In FieldsV1: the field itself is in the set, beside those below it."""
_DEEPEST: Final = 200
"""Elements of a path that is read."""


def field(name: str) -> str:
    """Return the element for a field."""
    return f"f:{name}"


def keyed(keys: Mapping[str, Any]) -> str:
    """Return the element for an element of a list, by its keys."""
    return "k:" + msgspec.json.encode(dict(sorted(keys.items()))).decode()


def valued(value: Any) -> str:
    """Return the element for an element of a set."""
    return "v:" + msgspec.json.encode(value, order="sorted").decode()


def to_fields_v1(paths: FieldSet) -> dict[str, Any]:
    """Return a set as FieldsV1."""
    root: dict[str, Any] = {}
    for path in sorted(paths):
        place = root
        for element in path[:-1]:
            place = place.setdefault(element, {})
        place.setdefault(path[-1], {})
    return _with_selves(root, paths, ())


def _with_selves(node: dict[str, Any], paths: FieldSet, at: Path) -> dict[str, Any]:
    """Return FieldsV1 with `.` for fields that are in the set beside those below them."""
    kept = {name: _with_selves(below, paths, (*at, name)) for name, below in node.items()}
    return {SELF: {}, **kept} if kept and at in paths else kept


def from_fields_v1(fields: Any) -> FieldSet:
    """Return the set that FieldsV1 stands for.

    Raises:
        ValueError: it is no path.
    """
    found: list[Path] = []
    waiting: list[tuple[Path, Any]] = [((), fields)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict) or len(path) > _DEEPEST:
            raise ValueError(f"{_shown(path)}: an object of fields is wanted")
        if path and (not node or SELF in node):
            found.append(path)
        for element, below in node.items():
            if element != SELF:
                _check(element)
                waiting.append(((*path, element), below))
    return frozenset(found)


def _check(element: str) -> None:
    form, colon, rest = element[:1], element[1:2], element[2:]
    if colon != ":" or form not in ("f", "k", "v", "i"):
        raise ValueError(f"{element[:100]!r} is no element of a path")
    if form != "f":
        try:
            value = decode_json(rest)
        except msgspec.DecodeError as error:
            raise ValueError(f"{element[:100]!r} is no element of a path") from error
        if form == "k" and not isinstance(value, dict):
            raise ValueError(f"{element[:100]!r} has no keys")


def _shown(path: Path) -> str:
    return path_text(path)[:200]


def path_text(path: Path) -> str:
    """Return a path as errors show it: `.spec.containers[name="a"].image`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    form, rest = element[0], element[2:]
    if form == "f":
        return f".{rest}"
    if form == "v":
        return f"[={rest}]"
    if form == "i":
        return f"[{rest}]"
    keys = decode_json(rest, dict[str, msgspec.Raw])
    return f"[{','.join(f'{name}={bytes(value).decode()}' for name, value in keys.items())}]"


def tree(paths: Iterable[Path]) -> dict[str, Any]:
    """Return a set of paths by their elements, to go through along with a value; `SELF` is where a path ends."""
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[SELF] = True
    return root
