"""The rules of structural schemas: which schemas a CustomResourceDefinition may have."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from edged.validation.causes import Cause, forbidden, invalid, required, unsupported
from modules.apimachinery.structural_schema.causes import MOST
from modules.apimachinery.structural_schema.patterns import PatternError, pattern
from modules.apimachinery.structural_schema.values import EMBEDDED, INT_OR_STRING, PRESERVE, faults

DEPTH: Final = 40
"""Levels of a schema."""
NODES: Final = 10_000
"""Schemas in a schema."""

_TYPES: Final = ["array", "boolean", "integer", "number", "object", "string"]
_FLAGS: Final = ("nullable", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems", PRESERVE, INT_OR_STRING, EMBEDDED)
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS: Final = ("minimum", "maximum", "multipleOf")
_TEXTS: Final = ("description", "title", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type")
_ANY: Final = ("default", "example", "externalDocs", "enum", "required", "type", "properties", "items",
               "additionalProperties", "x-kubernetes-list-map-keys", "allOf", "anyOf", "oneOf", "not")  # fmt: skip
_NOT_SUPPORTED: Final = {
    "x-kubernetes-validations": (
        "this API server evaluates no CEL: take the rules out, and write them as minimum, maximum, pattern, enum, "
        "required or oneOf where that is possible; the controller of the kind checks the others"
    )
}
"""The advice about a refused keyword of Kubernetes: without the rule, objects would pass that a cluster refuses."""
_KNOWN: Final = frozenset((*_FLAGS, *_COUNTS, *_NUMBERS, *_TEXTS, *_ANY))


def schema_faults(schema: Any, path: str) -> list[Cause]:
    """Return the rules that a schema breaks; at most twenty.

    Args:
        schema: an `openAPIV3Schema`.
        path: its place in the CustomResourceDefinition.
    """
    checker = _Checker()
    found = list(islice(checker.check(schema, path, 0), MOST))
    if not found and schema.get("type") != "object":
        found.append(invalid(f"{path}.type", schema.get("type", ""), "must be object at the root"))
    return found


class _Checker:
    def __init__(self) -> None:
        self._nodes = 0

    def check(self, schema: Any, path: str, depth: int, *, is_value: bool = False) -> Iterator[Cause]:
        """Yield the faults of one schema; `is_value` for one below allOf, anyOf, oneOf or not, which needs no type."""
        self._nodes += 1
        if not isinstance(schema, dict):
            yield invalid(path, schema, "must be an object")
            return
        if depth > DEPTH or self._nodes > NODES:
            yield forbidden(path, f"a schema has at most {DEPTH} levels and {NODES} schemas")
            return
        wrong = [*_keyword_faults(schema, path)]
        yield from wrong
        if wrong:
            return
        if not is_value:
            yield from _structure_faults(schema, path)
        for place, inner, of_value in _inner(schema, path):
            yield from self.check(inner, place, depth + 1, is_value=is_value or of_value)
        if "default" in schema and not is_value and depth < DEPTH and self._nodes <= NODES:
            yield from _default_faults(schema, path)


def _default_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    try:
        yield from faults(schema["default"], schema, f"{path}.default")
    except (KeyError, TypeError, ValueError):  # a part of the schema is wrong itself, and has been told
        yield invalid(f"{path}.default", schema["default"], "cannot be checked")


def _keyword_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    for name in schema.keys() - _KNOWN:
        yield forbidden(
            f"{path}.{name[:60]}", _NOT_SUPPORTED.get(name, "this keyword is not supported by this API server")
        )
    shapes: tuple[tuple[tuple[str, ...], Any, str], ...] = (
        (_FLAGS, bool, "must be a boolean"), (_TEXTS, str, "must be a string"),
        (_NUMBERS, (int, float), "must be a number"),
        (("enum", "required", "allOf", "anyOf", "oneOf", "x-kubernetes-list-map-keys"), list, "must be a list"),
        (("properties",), dict, "must be an object"), (("additionalProperties",), (bool, dict), "must be a schema"),
    )  # fmt: skip
    for names, wanted, why in shapes:
        for name in names:
            if name in schema and not isinstance(schema[name], wanted):
                yield invalid(f"{path}.{name}", schema[name], why)
    for name in _COUNTS:
        if name in schema and not (type(schema[name]) is int and schema[name] >= 0):
            yield invalid(f"{path}.{name}", schema[name], "must be a whole number, 0 or more")
    if not all(isinstance(name, str) for name in schema.get("required") or ()):
        yield invalid(f"{path}.required", schema["required"], "must be a list of strings")
    if "type" in schema and schema["type"] not in _TYPES:
        yield unsupported(f"{path}.type", schema["type"], _TYPES)
    if isinstance(schema.get("pattern"), str):
        try:
            pattern(schema["pattern"])
        except PatternError as error:
            yield invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )


def _structure_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if schema.get(INT_OR_STRING):
        if kind:
            yield forbidden(f"{path}.type", f"must be empty if {INT_OR_STRING} is true")
    elif not kind and not schema.get(PRESERVE):
        yield required(f"{path}.type", "must not be empty for specified object fields")
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if schema.get("properties") and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")


def _inner(schema: dict[str, Any], path: str) -> Iterator[tuple[str, Any, bool]]:
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name[:60]}]", inner, False
    if "items" in schema:
        yield f"{path}.items", schema["items"], False
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}.additionalProperties", schema["additionalProperties"], False
    for word in ("allOf", "anyOf", "oneOf"):
        for at, inner in enumerate(schema.get(word) or ()):
            yield f"{path}.{word}[{at}]", inner, True
    if "not" in schema:
        yield f"{path}.not", schema["not"], True
