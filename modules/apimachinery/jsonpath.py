"""Runs Kubernetes' JSONPath templates on objects, with kubectl's results, texts and errors.

The work of one run is bounded, whatever the template: an expression can multiply its results with each part.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from beehive.cache import cached_for_short_texts
from beehive.printable import clipped
from modules.apimachinery.conversion import number_of_values
from modules.apimachinery.jsonpath_parser import (
    ElementFilter,
    Field,
    Identifier,
    JsonPathError,
    Literal,
    Node,
    Path,
    PathUnion,
    Recursive,
    Slice,
    Wildcard,
    parse,
)

MOST_STEPS: Final = 4_000_000
"""Values that one run of a person's template may look at."""
_STEPS: Final = 1000
_STEPS_OF_VALUE: Final = 4
"""Steps of a run for each value of its object, beside `_STEPS`, that is no person's: `..` takes two of each."""
MOST_RANGES: Final = 50
"""Ranges that may be within each other."""
MOST_CHARACTERS: Final = 64 * 1024 * 1024
"""Characters that one run may make."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_HTML: Final = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def relaxed(expression: str) -> str:
    """Return the template of a path as `--sort-by` and custom columns take it: braces and the first dot may be missing.

    Raises:
        JsonPathError: it has braces elsewhere than around it.
    """
    inner = expression[1:-1] if expression.startswith("{") and expression.endswith("}") else expression
    inner = inner.removeprefix(".")
    if not inner or "{" in inner or "}" in inner:
        raise JsonPathError(
            f"unexpected path string {clipped(expression)}, expected a 'name1.name2' or '.name1.name2' or "
            "'{name1.name2}' or '{.name1.name2}'"
        )
    return f"{{.{inner}}}"


class JsonPath:
    """One template, read once and run on any number of objects.

    Raises:
        JsonPathError: the template does not follow the grammar.
    """

    def __init__(self, template: str) -> None:
        self._template = template
        self._parts = parse(template)

    def render(self, obj: Any, *, as_json: bool = False) -> str:
        """Return the text for an object, without a line break at its end (`-o jsonpath`).

        Args:
            obj: the object, of JSON's types.
            as_json: the results of each expression as a JSON list (`-o jsonpath-as-json`).

        Raises:
            JsonPathError: an expression does not fit the object.
        """
        texts: list[str] = []
        size = 0
        for results in self._run(obj):
            text = _json_list(results) if as_json else " ".join(map(text_of, results))
            size += len(text)
            if size > MOST_CHARACTERS:
                raise self._error(f"the result has more than {MOST_CHARACTERS} characters")
            texts.append(text)
        return "".join(texts)

    def values(self, obj: Any) -> list[Any]:
        """Return all results of the template for an object.

        Raises:
            JsonPathError: an expression does not fit the object.
        """
        return [value for results in self._run(obj) for value in results]

    def first(self, obj: Any) -> Any:
        """Return the first result of the first expression for an object; None without one, or if it does not fit the
        object. The steps are in proportion to the object's values.
        """
        try:
            results = next(_Run(self._parts, obj, _STEPS, _STEPS_OF_VALUE).block(0, obj, within=False), ())
        except _MismatchError:
            return None
        return next(iter(results), None)

    def _run(self, obj: Any) -> Iterator[list[Any]]:
        try:
            yield from _Run(self._parts, obj, MOST_STEPS).block(0, obj, within=False)
        except _MismatchError as error:
            raise self._error(str(error)) from error

    def _error(self, why: str) -> JsonPathError:
        shown = clipped(self._template, 1000)
        return JsonPathError(f'error executing jsonpath "{shown}": Error executing template: {why}')


@cached_for_short_texts(1024)
def column_path(text: str) -> JsonPath:
    """Return the path of a column of a definition (additionalPrinterColumns).

    Raises:
        JsonPathError: it cannot be read.
    """
    return JsonPath(f"{{{text}}}")


class _MismatchError(Exception):
    """An expression does not fit the object."""


class _Run:
    """One run of a template.

    Args:
        parts: of the template.
        obj: the object.
        most: values that it may look at.
        more: further ones for each value of the object.
    """

    def __init__(self, parts: list[Path], obj: Any, most: int, more: int = 0) -> None:
        self._parts = parts
        self._ends = _ends_of_ranges(parts)
        self._obj = obj
        self._most = most
        self._more = more
        self._steps = 0

    def block(self, start: int, obj: Any, *, within: bool) -> Iterator[list[Any]]:
        """Yield the results of the parts from `start` to the `end` of the range that they are in."""
        place = start
        while place < len(self._parts):
            path = self._parts[place]
            self._count()
            if _has(path, "end"):
                if not within:
                    raise _MismatchError("not in range, nothing to end")
                return
            results = self._walk([obj], path)
            if _has(path, "range"):
                for value in results:
                    yield from self.block(place + 1, value, within=True)
                place = self._ends[place]
            else:
                yield results
            place += 1

    def _walk(self, values: list[Any], path: Path) -> list[Any]:
        for node in path:
            self._count()
            found = []
            for value in self._step(node, values):
                self._count()
                found.append(value)
            values = found
        return values

    def _count(self) -> None:
        self._steps += 1
        if self._steps > self._most and self._more:  # only now, as it takes a while
            self._most += self._more * number_of_values(self._obj)
            self._more = 0
        if self._steps > self._most:
            raise _MismatchError(f"more than {self._most} values")

    def _step(self, node: Node, values: list[Any]) -> Iterable[Any]:
        if isinstance(node, Field):
            return (value[node.name] for value in values if isinstance(value, dict) and node.name in value)
        if isinstance(node, Literal):
            return (node.value,) if isinstance(node.value, str) else (node.value for _ in values)
        if isinstance(node, Slice):
            return self._slice(node, values)
        if isinstance(node, ElementFilter):
            return self._filter(node, values)
        if isinstance(node, Wildcard):
            return (part for value in values for part in _parts_of(value))
        if isinstance(node, Recursive):
            return _everything_in(values)
        if isinstance(node, PathUnion):
            return (result for path in node.paths for result in self._walk(values, path))
        if node.name != "range":
            raise _MismatchError(f"unrecognized identifier {clipped(node.name)}")
        return values

    def _slice(self, node: Slice, values: list[Any]) -> Iterator[Any]:
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise _MismatchError(f"{_type(value)} is not array or slice")
            first, end = _bounds(node, len(value))
            if first == end:
                return
            yield from value[first : end : node.step or 1]

    def _filter(self, node: ElementFilter, values: list[Any]) -> Iterator[Any]:
        for value in values:
            if not isinstance(value, list):
                raise _MismatchError(f"{_type(value)} is not array or slice and cannot be filtered")
            for element in value:
                if self._passes(node, element):
                    yield element

    def _passes(self, node: ElementFilter, element: Any) -> bool:
        if node.operator == "exists":
            return bool(self._walk([element], node.left))
        lefts = self._walk([element], node.left)
        if not lefts:
            return False
        rights = self._walk([element], node.right)
        if not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise _MismatchError("can only compare one element at a time")
        if node.operator not in _OPERATORS:
            raise _MismatchError(f"unrecognized filter operator {node.operator}")
        return _compared(lefts[0], node.operator, rights[0])


def _ends_of_ranges(parts: list[Path]) -> dict[int, int]:
    """Return the place of the `end` of each `range`; without one, the place of the last part."""
    found: dict[int, int] = {}
    open_: list[int] = []
    for place, path in enumerate(parts):
        if _has(path, "range"):
            open_.append(place)
            if len(open_) > MOST_RANGES:
                raise _MismatchError(f"more than {MOST_RANGES} ranges within each other")
        elif _has(path, "end") and open_:
            found[open_.pop()] = place
    return found | dict.fromkeys(open_, len(parts) - 1)


def _has(path: Path, word: str) -> bool:
    """Return whether a path has an identifier; a field or a text of that name is none."""
    return any(isinstance(node, Identifier) and node.name == word for node in path)


def _bounds(node: Slice, length: int) -> tuple[int, int]:
    """Return first and end of a slice of a list of this length."""
    first = node.first or 0
    end = length if node.end is None else node.end
    first += length if first < 0 else 0
    if end < 0 or (end == 0 and node.one):
        end += length
    if first == end:
        return first, end
    if not 0 <= first < length:
        raise _MismatchError(f"array index out of bounds: index {first}, length {length}")
    if not 0 <= end <= length:
        raise _MismatchError(f"array index out of bounds: index {end - 1}, length {length}")
    if first > end:
        raise _MismatchError(f"starting index {first} is greater than ending index {end}")
    if node.step is not None and node.step <= 0:
        raise _MismatchError("step must be > 0")
    return first, end


def _compared(left: Any, sign: str, right: Any) -> bool:
    if isinstance(left, dict | list) or isinstance(right, dict | list):
        raise _MismatchError("invalid type for comparison")
    if type(left) is not type(right):
        raise _MismatchError("incompatible types for comparison")
    if (isinstance(left, bool) or left is None) and sign not in ("==", "!="):
        raise _MismatchError("invalid type for comparison")
    return _OPERATORS[sign](left, right)


def _parts_of(value: Any) -> Iterable[Any]:
    """Return the members of an object in the order of their keys, or the elements of a list."""
    if isinstance(value, dict):
        return (value[key] for key in sorted(value))
    return value if isinstance(value, list) else ()


def _everything_in(values: Iterable[Any]) -> Iterator[Any]:
    """Yield each object, list and text, and those within them, each before its parts."""
    waiting = [iter(values)]
    while waiting:
        for value in waiting[-1]:
            if value and isinstance(value, dict | list):
                yield value
                waiting.append(iter(_parts_of(value)))
                break
            if value and isinstance(value, str):
                yield value
        else:
            waiting.pop()


def _type(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "map[string]interface {}", str: "string", bool: "bool", int: "int64", float: "float64"}
    return names.get(type(value), "[]interface {}")


def text_of(value: Any) -> str:
    """Return a result as it is printed."""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    text = json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_HTML)


def _json_list(results: list[Any]) -> str:
    text = json.dumps(_plain(results), sort_keys=True, ensure_ascii=False, indent=4)
    return f"{text.translate(_HTML)}\n"


def _plain(value: Any) -> Any:
    """Return the value with whole floats as integers, as Go prints them."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list) else value
