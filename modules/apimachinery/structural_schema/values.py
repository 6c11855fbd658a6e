"""Pruning, defaulting and validation of values by a structural schema, with kube-apiserver's messages."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import islice
from math import remainder
from typing import Any, Final

import msgspec

from edged.validation.causes import Cause, duplicate, invalid, required, shown, unsupported
from modules.apimachinery.structural_schema.causes import MOST
from modules.apimachinery.structural_schema.formats import fits_format
from modules.apimachinery.structural_schema.patterns import PatternError, pattern

Schema = dict[str, Any]
_OfMetadata = Callable[[Any, str], Iterable[str]]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
_OF_OBJECTS: Final = ("apiVersion", "kind", "metadata")
_NEARLY: Final = 1e-9
"""Part of a factor by which a multiple of it may be off: 0.3 is a multiple of 0.1 (go-openapi's `MultipleOf`)."""


def pruned(value: Any, schema: Schema, *, is_object: bool = True) -> Any:
    """Return the value without the fields that the schema does not have.

    Args:
        value: a JSON value.
        schema: its schema.
        is_object: whether the value is a Kubernetes object, whose apiVersion, kind and metadata stay.
    """
    return _pruned(value, schema, _Unknown(), is_object=is_object, path="")


def unknown_fields(value: Any, schema: Schema, of_metadata: _OfMetadata | None = None) -> tuple[str, ...]:
    """Return the paths of an object's fields that the schema does not have; at most twenty.

    Args:
        value: the object.
        schema: its schema.
        of_metadata: returns the unknown fields of the metadata of an object at a path; no schema has them.
    """
    unknown = _Unknown(of_metadata)
    _pruned(value, schema, unknown, is_object=True, path="")
    return tuple(unknown.paths[:MOST])


class _Unknown:
    """The paths of unknown fields that are found."""

    def __init__(self, of_metadata: _OfMetadata | None = None) -> None:
        self.paths: list[str] = []
        self._of_metadata = of_metadata

    def look_into(self, name: str, member: Any, path: str) -> None:
        """Look for unknown fields in a member that every object has."""
        if self._of_metadata is not None and name == "metadata":
            self.paths += self._of_metadata(member, path)


def _pruned(value: Any, schema: Schema, unknown: _Unknown, *, is_object: bool, path: str) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {PRESERVE: schema.get(PRESERVE)}
        nested = bool(items.get(EMBEDDED))
        return [_pruned(each, items, unknown, is_object=nested, path=f"{path}[{at}]") for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, member in value.items():
        place, of = _join(path, name), member_schema(schema, name)
        if is_object and name in _OF_OBJECTS:
            made[name] = member
            unknown.look_into(name, member, place)
        elif of is not None:
            made[name] = _pruned(member, of, unknown, is_object=bool(of.get(EMBEDDED)), path=place)
        elif schema.get(PRESERVE):
            made[name] = member
        else:
            unknown.paths.append(place)
    return made


def member_schema(schema: Schema, name: str) -> Schema | None:
    """Return the schema of an object's member; None for an unknown one."""
    declared: Schema | None = (schema.get("properties") or {}).get(name)
    if declared is not None:
        return declared
    more = schema.get("additionalProperties")
    if more is True:
        return {PRESERVE: True}
    return more if isinstance(more, dict) else None


def with_defaults(value: Any, schema: Schema) -> Any:
    """Return the value with the schema's defaults; a null that may not be one gets its default, too."""
    if isinstance(value, list) and schema.get("items"):
        return [with_defaults(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    made = dict(value)
    for name, of in (schema.get("properties") or {}).items():
        if "default" in of and (name not in made or (made[name] is None and not of.get("nullable"))):
            made[name] = deepcopy(of["default"])
    return {name: with_defaults(member, member_schema(schema, name) or {}) for name, member in made.items()}


def has_defaults(schema: Schema) -> bool:
    """Return whether a schema, or one in it, has a default."""
    inner = (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return "default" in schema or any(has_defaults(each) for each in inner if isinstance(each, dict))


def without_wrong_nulls(value: Any, schema: Schema) -> Any:
    """Return the value without members that are null and may not be (PruneNonNullableNullsWithoutDefaults)."""
    if isinstance(value, list):
        return [without_wrong_nulls(each, schema.get("items") or {}) for each in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, member in value.items():
        of = member_schema(schema, name)
        if member is not None or of is None or of.get("nullable") or not _has_type(of):
            kept[name] = without_wrong_nulls(member, of or {})
    return kept


def _has_type(schema: Schema) -> bool:
    return bool(schema.get("type") or schema.get(INT_OR_STRING))


def faults(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Return the rules of the schema that a value breaks; at most twenty."""
    return list(islice(_faults(value, schema, path), MOST))


def _faults(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    if value is None:
        if not schema.get("nullable") and _has_type(schema):
            yield _wrong_type(path, "null", str(schema.get("type") or "integer,string"))
        return
    wanted = ["integer", "string"] if schema.get(INT_OR_STRING) else [schema["type"]] if schema.get("type") else []
    if wanted and not any(_is(value, each) for each in wanted):
        yield _wrong_type(path, _type_of(value), ",".join(wanted))
        if "enum" in schema:
            yield unsupported(path, value, schema["enum"])
        return
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        yield unsupported(path, value, schema["enum"])
    if isinstance(value, str):
        yield from _text_faults(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_faults(value, schema, path)
    elif isinstance(value, list):
        yield from _list_faults(value, schema, path)
    elif isinstance(value, dict):
        yield from _object_faults(value, schema, path)
    yield from _junctor_faults(value, schema, path)


def _junctor_faults(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    for each in schema.get("allOf") or ():
        yield from _faults(value, each, path)
    body = path or "<nil>"
    fitting = {word: sum(not faults(value, each, path) for each in schema[word]) for word in ("anyOf", "oneOf")
               if schema.get(word)}  # fmt: skip
    if fitting.get("anyOf") == 0:
        yield invalid(path, value, f"{body} in body must validate at least one schema (anyOf)")
    if fitting.get("oneOf", 1) != 1:
        yield invalid(path, value, f"{body} in body must validate one and only one schema (oneOf)")
    if isinstance(schema.get("not"), dict) and not faults(value, schema["not"], path):
        yield invalid(path, value, f"{body} in body must not validate the schema (not)")


def _text_faults(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) < schema.get("minLength", 0):
        yield invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    elif len(value) > schema.get("maxLength", len(value)):
        yield Cause(path, f"Too long: may not be more than {schema['maxLength']} bytes", "FieldValueTooLong")
    elif "pattern" in schema:
        try:
            fits = pattern(schema["pattern"]).search(value)
        except PatternError as error:
            yield invalid(path, value, str(error))
        else:
            if not fits:
                yield invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if not fits_format(schema.get("format", ""), value):
        yield Cause(path, f"Invalid value: {shown(value)}: {path} in body must be of type {schema['format']}: "
                          f"{shown(value)}", "FieldValueInvalid")  # fmt: skip


def _number_faults(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most, factor = (schema.get(name) for name in ("minimum", "maximum", "multipleOf"))
    if least is not None and (value < least or (schema.get("exclusiveMinimum") and value == least)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {words} {least}")
    if most is not None and (value > most or (schema.get("exclusiveMaximum") and value == most)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {words} {most}")
    if factor and abs(remainder(value, factor)) > _NEARLY * abs(factor):
        yield invalid(path, value, f"{path} in body should be a multiple of {factor}")


def _list_faults(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) < schema.get("minItems", 0):
        yield invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    if len(value) > schema.get("maxItems", len(value)):
        why = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        yield Cause(path, why, "FieldValueTooMany")
    for at, each in enumerate(value):
        yield from _faults(each, schema.get("items") or {}, f"{path}[{at}]")
    yield from _repeated(value, schema, path)


def _repeated(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    """Yield the elements of a set, or of a list with keys, that are there before."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for at, each in enumerate(value):
        one = {key: each[key] for key in keys if key in each} if kind == "map" and isinstance(each, dict) else each
        text = msgspec.json.encode(one, order="sorted")
        if text in seen:
            yield duplicate(f"{path}[{at}]", one)
        seen.add(text)


def _object_faults(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) < schema.get("minProperties", 0):
        yield invalid(path, len(value), f"{path} in body should have at least {schema['minProperties']} properties")
    if len(value) > schema.get("maxProperties", len(value)):
        why = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        yield Cause(path, why, "FieldValueTooMany")
    for name in schema.get("required") or ():
        if name not in value:
            yield required(_join(path, name))
    for name, member in value.items():
        of = member_schema(schema, name)
        if of is not None:
            yield from _faults(member, of, _join(path, name))
    if schema.get(EMBEDDED):
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield required(_join(path, name), "must not be empty")


def _wrong_type(path: str, found: str, wanted: str) -> Cause:
    return Cause(path, f'Invalid value: "{found}": {path or "<nil>"} in body must be of type {wanted}: "{found}"',
                 "FieldValueTypeInvalid")  # fmt: skip


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    known = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return known.get(type(value), "null")


def _is(value: Any, wanted: str) -> bool:
    found = _type_of(value)
    is_whole = isinstance(value, float) and value.is_integer()
    return found == wanted or (wanted == "number" and found == "integer") or (wanted == "integer" and is_whole)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
