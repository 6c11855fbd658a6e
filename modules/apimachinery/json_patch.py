"""JSON patches (RFC 6902): a list of operations on places in a document, named by JSON pointers (RFC 6901)."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from beehive.nesting import LEVELS, is_nested_deeper
from modules.apimachinery.api_errors import BadRequestError, TooLargeError, UnprocessableError
from modules.apimachinery.computed import charge_steps
from modules.apimachinery.conversion import copied, is_equal, number_of_values
from modules.apimachinery.go_json import type_error

OPERATIONS: Final = 10_000
"""Maximum of operations of one patch (the API server's)."""

POINTER_PARTS: Final = 100_000
"""Maximum of the parts of all pointers of a patch; each part is a step into the document."""

COPIED_BYTES: Final = 3 * 1024 * 1024
"""Maximum of bytes that a patch copies (the API server's), so that copies of copies do not fill the memory."""

COPIED_VALUES: Final = 10_000
"""Maximum of JSON values that a patch copies: three megabytes can have a million, which take a second to copy."""

MOVED_VALUES: Final = 500_000
"""Maximum of JSON values that a patch moves: each move looks at all that is moved."""

_MOVED: Final = "moved"
_COPIED: Final = "copied"
"""Keys of the values that were moved and copied so far, beside the document's, ""; no pointer leads there."""
_END: Final = "-"


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Return the document with a patch applied; the document itself stays as it is.

    Raises:
        BadRequestError: it is no list of operations, or the document would be nested too deeply to be read.
        TooLargeError: it has too many.
        UnprocessableError: an operation does not fit the document, or a test fails.
    """
    if not isinstance(operations, list):
        raise BadRequestError(f"error decoding patch: {type_error(operations, '[]handlers.jsonPatchOp')}")
    if len(operations) > OPERATIONS:
        asked = f"maximum operations in a JSON patch is {OPERATIONS}, got {len(operations)}"
        raise TooLargeError(f"The allowed {asked}")
    if sum(map(_parts, operations)) > POINTER_PARTS:
        raise TooLargeError(f"the pointers of a JSON patch have at most {POINTER_PARTS} parts")
    holder = {"": copied(document), _COPIED: (0, 0), _MOVED: 0}
    for operation in operations:
        _apply_one(holder, operation)
    return holder[""]


def _parts(operation: Any) -> int:
    pointers = (operation.get("path"), operation.get("from")) if isinstance(operation, dict) else ()
    return sum(pointer.count("/") for pointer in pointers if isinstance(pointer, str))


def _apply_one(holder: dict[str, Any], operation: Any) -> None:
    if not isinstance(operation, dict):
        raise BadRequestError(f"error decoding patch: {type_error(operation, 'handlers.jsonPatchOp')}")
    act = _OPERATIONS.get(str(operation.get("op")))
    if act is None:
        raise UnprocessableError(f"an operation of a JSON patch has one of the op {', '.join(_OPERATIONS)}")
    act(holder, operation)


def _add(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    _insert(holder, _pointer(operation, "path"), _value(operation))


def _remove(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    _pop(holder, _pointer(operation, "path"))


def _replace(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path")
    parent = _parent(holder, path)
    parent[_member(parent, path)] = _bounded(path, _value(operation))


def _move(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    source, path = _pointer(operation, "from"), _pointer(operation, "path")
    if len(path) > len(source) and path[: len(source)] == source:
        raise UnprocessableError(f"{_text(source)} cannot be moved into itself")
    value = _pop(holder, source)
    values = number_of_values(value)
    holder[_MOVED] += values
    if holder[_MOVED] > MOVED_VALUES:
        raise TooLargeError(f"the moves of a JSON patch have at most {MOVED_VALUES} values")
    charge_steps(values)
    _insert(holder, path, value)


def _copy(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    source = _pointer(operation, "from")
    parent = _parent(holder, source)
    value = _value_at(parent, source)
    size, values = holder[_COPIED]
    size, values = holder[_COPIED] = size + len(msgspec.json.encode(value)), values + number_of_values(value)
    if size > COPIED_BYTES or values > COPIED_VALUES:
        raise UnprocessableError(f"its copies have more than {COPIED_BYTES} bytes or {COPIED_VALUES} values")
    charge_steps(values)
    _insert(holder, _pointer(operation, "path"), copied(value))


def _test(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path")
    parent = _parent(holder, path)
    if not is_equal(_value_at(parent, path), _value(operation)):
        raise UnprocessableError(f"testing value {_text(path)} failed")


_OPERATIONS: Final[dict[str, Callable[[dict[str, Any], dict[str, Any]], None]]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test,
}  # fmt: skip


def _value(operation: dict[str, Any]) -> Any:
    """Return an operation's value: null without one, as clients of Go leave out a null."""
    return copied(operation.get("value"))


def _pointer(operation: dict[str, Any], field: str) -> Sequence[str]:
    """Return the parts of a pointer, with one more before them for the whole document."""
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise UnprocessableError(f"{field}: a JSON pointer is wanted, such as /metadata/labels")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _parent(holder: Any, path: Sequence[str]) -> Any:
    place = holder
    for part in path[:-1]:
        place = place[_existing(place, [part], path)]
    return place


def _existing(place: Any, path: Sequence[str], whole: Sequence[str] = ()) -> Any:
    """Return the key or index of an existing member."""
    part = path[-1]
    if isinstance(place, dict) and part in place:
        return part
    if isinstance(place, list) and (index := _index(part, len(place) - 1)) is not None:
        return index
    raise UnprocessableError(f"there is nothing at {_text(whole or path)}")


def _member(place: Any, path: Sequence[str]) -> Any:
    """Return the key of a member of an object, or the index of an existing element.

    The member may be missing, unlike in RFC 6902: in Kubernetes (evanphx/json-patch 4) `replace` adds it, and for
    `test` and `copy` it is null.
    """
    return path[-1] if isinstance(place, dict) and len(path) > 1 else _existing(place, path)


def _value_at(place: Any, path: Sequence[str]) -> Any:
    member = _member(place, path)
    return place.get(member) if isinstance(place, dict) else place[member]


def _insert(holder: dict[str, Any], path: Sequence[str], value: Any) -> None:
    parent = _parent(holder, path)
    _bounded(path, value)
    if isinstance(parent, dict):
        parent[path[-1]] = value
        return
    index = len(parent) if path[-1] == _END and isinstance(parent, list) else None
    if index is None and isinstance(parent, list):
        index = _index(path[-1], len(parent))
    if index is None:
        raise UnprocessableError(f"nothing can be added at {_text(path)}")
    parent.insert(index, value)


def _bounded(path: Sequence[str], value: Any) -> Any:
    """Return a value that the document can hold at a place: operations could nest it deeper than any text."""
    if is_nested_deeper(value, LEVELS - len(path) + 1):
        raise BadRequestError(f"the patch nests the object more than {LEVELS} levels deep")
    return value


def _pop(holder: dict[str, Any], path: Sequence[str]) -> Any:
    if len(path) == 1:
        raise UnprocessableError("the whole object cannot be removed")
    parent = _parent(holder, path)
    member = _existing(parent, path)
    return parent.pop(member)


def _index(part: str, most: int) -> int | None:
    """Return an index of at most so much; one below zero counts from the end, as in Kubernetes."""
    digits = part.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10) or (digits != "0" and digits.startswith("0")):
        return None
    index = int(part) + (most + 1 if part.startswith("-") else 0)
    return index if 0 <= index <= most else None


def _text(path: Sequence[str]) -> str:
    return repr("/".join(path)[:200])
