"""The rules of structural schemas: which schemas a CustomResourceDefinition may have."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.limits import VALUES
from modules.apimachinery.structural_schema.embedded import EMBEDDED
from modules.apimachinery.structural_schema.patterns import PatternError
from modules.apimachinery.structural_schema.values import INT_OR_STRING, PRESERVE, Steps, faults
from modules.apimachinery.validation.causes import Cause, forbidden, invalid, required, unsupported
from modules.apimachinery.validation.invalid_fields import MOST

DEPTH: Final = 40
"""Levels of a schema."""
NODES: Final = 10_000
"""Schemas in a schema."""

_VALIDATIONS: Final = "x-kubernetes-validations"
_TYPES: Final = ["array", "boolean", "integer", "number", "object", "string"]
_FLAGS: Final = ("nullable", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems", PRESERVE, INT_OR_STRING, EMBEDDED)
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS: Final = ("minimum", "maximum", "multipleOf")
_TEXTS: Final = ("description", "title", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type")
_ANY: Final = ("default", "example", "externalDocs", "enum", "required", "type", "properties", "items",
               "additionalProperties", "x-kubernetes-list-map-keys", "allOf", "anyOf", "oneOf", "not",
               _VALIDATIONS)  # fmt: skip
_NO_CEL: Final = (
    "this API server evaluates no CEL: take the rules out, and write them as minimum, maximum, pattern, enum, "
    "required or oneOf where that is possible; or store them as they are, with `cloudcore run "
    "--store-unevaluated-validations`: then objects pass that a cluster refuses"
)
_OUTSIDE: Final = ("$ref", "id", "additionalItems", "patternProperties", "definitions", "dependencies")
"""Keywords of JSON Schema that Kubernetes does not have."""
_LIST_TYPE, _MAP_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_EMPTY_IN_VALUES: Final = ("type", "description", "title")
_UNDEFINED_IN_VALUES: Final = ("default", "nullable", "additionalProperties", PRESERVE, EMBEDDED)
_KNOWN: Final = frozenset((*_FLAGS, *_COUNTS, *_NUMBERS, *_TEXTS, *_ANY))


def has_validations(definition: JsonObject) -> bool:
    """Return whether a CustomResourceDefinition has rules in CEL, which nothing here evaluates."""
    return f'"{_VALIDATIONS}":'.encode() in msgspec.json.encode(definition)


def schema_faults(schema: Any, path: str, steps: Steps | None = None, *, takes_validations: bool = True) -> list[Cause]:
    """Return the rules that a schema breaks; at most twenty.

    Args:
        schema: an `openAPIV3Schema`.
        path: its place in the CustomResourceDefinition.
        steps: counts the steps of its patterns and defaults, for all versions; None: for this one.
        takes_validations: whether rules in CEL are taken, though they are not evaluated.
    """
    checker = _Checker(steps or Steps(), takes_validations=takes_validations)
    found = list(islice(checker.check(schema, path, 0), MOST))
    if not found and schema.get("type") != "object":
        found.append(invalid(f"{path}.type", schema.get("type", ""), "must be object at the root"))
    return found or list(_root_faults(schema, path))


def _root_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the faults of the members that each object has."""
    properties = schema.get("properties") or {}
    metadata = properties.get("metadata") or {}
    if metadata.keys() - {"type", "properties", "description"} or (
        (metadata.get("properties") or {}).keys() - {"name", "generateName"}
    ):
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(f"{path}.properties[metadata]", why)
    for name in ("apiVersion", "kind"):
        kind = (properties.get(name) or {}).get("type", "string")
        if kind != "string":
            yield invalid(f"{path}.properties[{name}].type", kind, "must be string")


class _Checker:
    def __init__(self, steps: Steps, *, takes_validations: bool) -> None:
        self._nodes = 0
        self._steps = steps
        self._takes_validations = takes_validations

    def check(self, schema: Any, path: str, depth: int, *, is_value: bool = False) -> Iterator[Cause]:
        """Yield the faults of one schema; `is_value` for one below allOf, anyOf, oneOf or not, which needs no type."""
        self._nodes += 1
        if not isinstance(schema, dict):
            yield invalid(path, schema, "must be an object")
            return
        if depth > DEPTH or self._nodes > NODES:
            yield forbidden(path, f"a schema has at most {DEPTH} levels and {NODES} schemas")
            return
        wrong = [*_keyword_faults(schema, path, self._steps), *_validation_faults(schema.get(_VALIDATIONS), path)]
        if _VALIDATIONS in schema and not self._takes_validations:
            wrong.append(forbidden(f"{path}.{_VALIDATIONS}", _NO_CEL))
        yield from wrong
        if wrong:
            return
        if not is_value:
            yield from _structure_faults(schema, path)
            yield from _extension_faults(schema, path)
        else:
            yield from _value_faults(schema, path)
        for place, inner, of_value in _inner(schema, path):
            yield from self.check(inner, place, depth + 1, is_value=is_value or of_value)
        if "default" in schema and not is_value and depth < DEPTH and self._nodes <= NODES:
            yield from _default_faults(schema, path, self._steps)


def _default_faults(schema: dict[str, Any], path: str, steps: Steps) -> Iterator[Cause]:
    try:
        yield from faults(schema["default"], schema, f"{path}.default", steps)
    except TooLargeError:
        yield forbidden(f"{path}.default", "the schema has too many rules for its defaults")
    except (KeyError, TypeError, ValueError):  # a part of the schema is wrong itself, and has been told
        yield invalid(f"{path}.default", schema["default"], "cannot be checked")


def _keyword_faults(schema: dict[str, Any], path: str, steps: Steps) -> Iterator[Cause]:
    for name in schema.keys() - _KNOWN:
        why = f"{name} is not supported" if name in _OUTSIDE else "this keyword is not supported by this API server"
        yield forbidden(f"{path}.{name[:60]}", why)
    shapes: tuple[tuple[tuple[str, ...], Any, str], ...] = (
        (_FLAGS, bool, "must be a boolean"), (_TEXTS, str, "must be a string"),
        (_NUMBERS, (int, float), "must be a number"),
        (("enum", "required", "allOf", "anyOf", "oneOf", "x-kubernetes-list-map-keys", _VALIDATIONS), list,
         "must be a list"),
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
            steps.pattern(schema["pattern"])
        except TooLargeError:
            yield forbidden(f"{path}.pattern", f"the patterns have at most {VALUES} states in all")
        except PatternError as error:
            yield invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )


def _validation_faults(rules: Any, path: str) -> Iterator[Cause]:
    """Yield the rules in CEL that have no text."""
    for at, each in enumerate(rules if isinstance(rules, list) else ()):
        if not isinstance(each, dict) or not isinstance(each.get("rule"), str) or not each["rule"].strip():
            yield required(f"{path}.{_VALIDATIONS}[{at}].rule", "rule is not specified")


def _structure_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", "must not be empty for specified object fields")
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if schema.get("properties") and schema.get("additionalProperties", True) is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")


def _extension_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the faults of Kubernetes' own keywords."""
    kind = schema.get("type")
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")  # noqa: FBT003 - the value
    if schema.get(EMBEDDED):
        if kind != "object":
            why = f"must be object if {EMBEDDED} is true"
            yield invalid(f"{path}.type", kind, why) if kind else required(f"{path}.type", why)
        if not schema.get(PRESERVE) and not schema.get("properties"):
            yield required(f"{path}.properties", f"must not be empty if {EMBEDDED} is true without {PRESERVE}")
    if (merged := schema.get(_MAP_TYPE)) is not None:
        if merged not in _MAP_TYPES:
            yield unsupported(f"{path}.{_MAP_TYPE}", merged, _MAP_TYPES)
        if kind != "object":
            yield invalid(f"{path}.type", kind or "", f"must be object if {_MAP_TYPE} is specified")
    if schema.get(_LIST_TYPE) is not None:
        yield from _list_faults(schema, path)


def _list_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    kind, merged = schema.get("type"), schema[_LIST_TYPE]
    if kind != "array":
        yield invalid(f"{path}.type", kind or "", f"must be array if {_LIST_TYPE} is specified")
    if merged not in _LIST_TYPES:
        yield unsupported(f"{path}.{_LIST_TYPE}", merged, _LIST_TYPES)
    items = schema.get("items")
    if isinstance(items, dict) and merged == "map":
        yield from _key_faults(schema, items, path)
    elif isinstance(items, dict) and merged == "set" and items.get("type") in ("array", "object"):
        of = _LIST_TYPE if items["type"] == "array" else _MAP_TYPE
        if items.get(of) != "atomic" and (of == _MAP_TYPE or of in items):
            why = f"must be atomic as item of a list with {_LIST_TYPE}=set"
            yield invalid(f"{path}.items.{of}", items.get(of), why)


def _key_faults(schema: dict[str, Any], items: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the faults of the keys of a list's elements."""
    keys, properties = schema.get(_KEYS) or [], items.get("properties") or {}
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if items.get("type") != "object":
        why = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", why)
    if not all(isinstance(key, str) and isinstance(properties.get(key), dict) for key in keys):
        yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
        return
    for key in keys:
        if "default" not in properties[key] and key not in (items.get("required") or ()):
            why = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key[:60]}].default", why)


def _value_faults(schema: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the faults of a schema below allOf, anyOf, oneOf or not: it only decides which values fit."""
    is_choice = schema.keys() == {"type"} and path.rpartition(".")[2].startswith("anyOf[")
    for name in _EMPTY_IN_VALUES:
        if schema.get(name) and not is_choice:
            yield forbidden(f"{path}.{name}", "must be empty to be structural")
    for name in _UNDEFINED_IN_VALUES:
        if name in schema:
            yield forbidden(f"{path}.{name}", "must be undefined to be structural")


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
