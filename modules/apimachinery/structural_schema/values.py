"""Pruning, defaulting and validation of values by a structural schema, with kube-apiserver's messages.

A schema can make much of a little: a list's items have a default of thousands of values, and a value has a thousand
alternatives. So values that defaults add are counted, and the steps of a validation, up to bounds beyond which a
request is refused (413), and as steps of the request (`computed.charge_steps`).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import remainder
from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.computed import charge_steps
from modules.apimachinery.conversion import copied, is_equal, number_of_values
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.limits import VALUES
from modules.apimachinery.structural_schema.embedded import EMBEDDED, embedded_faults
from modules.apimachinery.structural_schema.formats import fits_format
from modules.apimachinery.structural_schema.patterns import STATES, Pattern, PatternError, pattern
from modules.apimachinery.validation.causes import Cause, duplicate, invalid, required, shown, unsupported
from modules.apimachinery.validation.invalid_fields import MOST

Schema = dict[str, Any]
_OfMetadata = Callable[[Any, str], Iterable[str]]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_JUNCTORS: Final = frozenset(("allOf", "anyOf", "oneOf", "not"))
_LONG: Final = ("enum", "required")
_TYPES: Final = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
_OF_OBJECTS: Final = ("apiVersion", "kind", "metadata")
_NEARLY: Final = 1e-9
"""Part of a factor by which a multiple of it may be off: 0.3 is a multiple of 0.1 (go-openapi's `MultipleOf`)."""
_STEPS: Final = 4
"""Steps of a validation for each value, beside `VALUES`. A value takes one, and each alternative one."""
_NAMES_IN_STEP: Final = 16
"""Values of an enumeration, or required members, that are looked at in a step."""
_LIST_TYPE: Final = "x-kubernetes-list-type"
_NONE: Final = object()
"""Stands for the former value where there is none."""
_LONGEST_NAME: Final = 1000
_LONGEST_PATH: Final = 4000
"""Characters of a name and of a path in an error: every value has a path, and a name may have a megabyte."""


def pruned(value: Any, schema: Schema, *, is_object: bool = True) -> Any:
    """Return the value without the fields that the schema does not have. A value of a wrong type stays whole: it is
    refused, or is as it was stored before its definition became stricter.

    Args:
        value: a JSON value.
        schema: its schema.
        is_object: whether the value is a Kubernetes object, whose apiVersion, kind and metadata stay.
    """
    return _pruned(value, schema, _Unknown(), is_object=is_object, path="")


def unknown_fields(
    value: Any, schema: Schema, of_metadata: _OfMetadata | None = None, *, is_applied: bool = False
) -> tuple[str, ...]:
    """Return the paths of an object's fields that the schema does not have; at most twenty.

    Args:
        value: the object.
        schema: its schema.
        of_metadata: returns the unknown fields of the metadata of an object at a path; no schema has them.
        is_applied: whether a server-side apply asks, for which an object without declared fields may have any (they are
            pruned later). controller-gen declares the metadata of pod templates so.
    """
    unknown = _Unknown(of_metadata, is_applied=is_applied)
    _pruned(value, schema, unknown, is_object=True, path="")
    return tuple(unknown.paths[:MOST])


class _Unknown:
    """The paths of unknown fields that are found."""

    def __init__(self, of_metadata: _OfMetadata | None = None, *, is_applied: bool = False) -> None:
        self.paths: list[str] = []
        self.is_applied = is_applied
        self._of_metadata = of_metadata

    def add(self, path: str) -> None:
        """Note an unknown field, unless enough are known."""
        if len(self.paths) < MOST:
            self.paths.append(path)

    def check(self, name: str, member: Any, path: str) -> None:
        """Look for unknown fields in a member that every object has."""
        if self._of_metadata is not None and name == "metadata":
            self.paths += self._of_metadata(member, path)


def _pruned(value: Any, schema: Schema, unknown: _Unknown, *, is_object: bool, path: str) -> Any:
    if schema.get("type", found := _type_of(value)) != found:
        return value
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
            unknown.check(name, member, place)
        elif of is not None:
            made[name] = _pruned(member, of, unknown, is_object=bool(of.get(EMBEDDED)), path=place)
        elif schema.get(PRESERVE):
            made[name] = member
        elif is_object or not unknown.is_applied or schema.get("properties") or "additionalProperties" in schema:
            unknown.add(place)
    return made


def member_schema(schema: Schema, name: str) -> Schema | None:
    """Return the schema of an object's member; None for an unknown one."""
    declared: Schema | None = (schema.get("properties") or {}).get(name)
    if declared is not None:
        return declared
    more = schema.get("additionalProperties")
    if more is True:  # of any type, and without fields: as Kubernetes, which prunes those
        return {}
    return more if isinstance(more, dict) else None


def with_defaults(value: Any, schema: Schema, defaults: "Defaults | None" = None) -> Any:
    """Return the value with the schema's defaults; a null that may not be one gets its default, too.

    Args:
        value: a JSON value.
        schema: its schema.
        defaults: counts the additions, for several values; None: for this one.

    Raises:
        TooLargeError: too many values would be added.
    """
    return _with_defaults(value, schema, defaults or Defaults())


class Defaults:
    """The values that defaults add, up to a bound.

    Args:
        most: how many may be added.
    """

    def __init__(self, most: int = VALUES) -> None:
        self._left = most
        self._of_schemas: dict[int, list[tuple[str, Schema, int]]] = {}
        """By the identity of a schema, its members with a default, and how many values each default has."""

    def of(self, schema: Schema) -> list[tuple[str, Schema, int]]:
        """Return the members with a default of a schema."""
        found = self._of_schemas.get(id(schema))
        if found is None:
            members = (schema.get("properties") or {}).items()
            found = [(name, of, number_of_values(of["default"])) for name, of in members if "default" in of]
            self._of_schemas[id(schema)] = found
        return found

    def add(self, values: int) -> None:
        """Count values before they are added. Raise TooLargeError if there are too many."""
        self._left -= values
        if self._left < 0:
            raise TooLargeError("the defaults of its kind would add too many values")
        charge_steps(values)


def _with_defaults(value: Any, schema: Schema, defaults: Defaults) -> Any:
    if value is None and "default" in schema and not schema.get("nullable"):
        value = schema["default"]
        defaults.add(number_of_values(value))
        value = copied(value)
    if isinstance(value, list) and schema.get("items"):
        return [_with_defaults(each, schema["items"], defaults) for each in value]
    if not isinstance(value, dict):
        return value
    made = dict(value)
    for name, of, values in defaults.of(schema):
        if name not in made:
            defaults.add(values)
            made[name] = copied(of["default"])
    return {name: _with_defaults(member, member_schema(schema, name) or {}, defaults) for name, member in made.items()}


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


def faults(value: Any, schema: Schema, path: str = "", steps: "Steps | None" = None) -> list[Cause]:
    """Return the rules of the schema that a value breaks; at most twenty.

    Args:
        value: a JSON value.
        schema: its schema.
        path: its path, for the causes.
        steps: counts the steps, for several values; None: for this one.

    Raises:
        TooLargeError: it takes too many steps to find out.
    """
    return _first(value, schema, path, steps or Steps(value))


def changed_faults(value: JsonObject, schema: Schema, former: JsonObject) -> list[Cause]:
    """Return the rules that an object breaks, and did not break before a change of it; at most twenty.

    A value that is as before breaks none, nor does one within it (KEP-4008). Elements of lists of the type `map` are
    compared by their keys, other lists as a whole. Repeated elements count unless there were some before. A change of
    nothing but metadata always passes, also where a member is missing that is required now.

    Args:
        value: the object.
        schema: its schema.
        former: the stored object.

    Raises:
        TooLargeError: it takes too many steps to find out.
    """
    steps = Steps(value)
    steps.has_repeated = _has_repeated(former, schema, steps)
    if steps.is_same(_without_metadata(value), _without_metadata(former), schema):
        return []
    return list(islice(_faults(value, schema, "", steps, former), MOST))


def _without_metadata(obj: JsonObject) -> JsonObject:
    return {name: member for name, member in obj.items() if name not in _OF_OBJECTS}


def _has_repeated(value: Any, schema: Schema, steps: "Steps") -> bool:
    steps.charge_steps(1)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return any(_repeated(value, schema, "")) or any(_has_repeated(each, items, steps) for each in value)
    if not isinstance(value, dict):
        return False
    members = ((member, member_schema(schema, name)) for name, member in value.items())
    return any(_has_repeated(member, of, steps) for member, of in members if of)


def _first(value: Any, schema: Schema, path: str, steps: "Steps", former: Any = _NONE) -> list[Cause]:
    return list(islice(_faults(value, schema, path, steps, former), MOST))


class Steps:
    """The steps of validations, and the states of their patterns, each up to a bound.

    Args:
        whole: the object with the values; None: the bound is for any number of values.
    """

    def __init__(self, whole: Any = None) -> None:
        self.has_repeated = False
        """Whether the former state of the object has repeated elements; then its new one may have some."""
        self._whole = whole
        self._left = VALUES
        self._patterns: dict[str, Pattern] = {}
        self._states_left = VALUES
        self._same: dict[tuple[int, int], bool] = {}
        """Whether values are as before, by the identities of both: each pair is compared once."""
        self._by_keys: dict[int, dict[bytes, Any]] = {}
        """The elements of former lists of the type `map`, by the identity of the list and by their keys."""

    def is_same(self, value: Any, former: Any, schema: Schema) -> bool:
        """Return whether a value is as before."""
        place = id(value), id(former)
        found = self._same.get(place)
        if found is None:
            self.charge_steps(1)
            found = self._same[place] = self._is_same(value, former, schema)
        return found

    def _is_same(self, value: Any, former: Any, schema: Schema) -> bool:
        if isinstance(value, dict) and isinstance(former, dict):
            return value.keys() == former.keys() and all(
                self.is_same(member, former[name], member_schema(schema, name) or {}) for name, member in value.items()
            )
        if isinstance(value, list) and isinstance(former, list) and _is_map(schema):
            items = schema.get("items") or {}
            return len(value) == len(former) and all(
                self.is_same(each, self.former_element(each, former, schema), items) for each in value
            )
        return is_equal(value, former)

    def former_element(self, element: Any, former: Any, schema: Schema) -> Any:
        """Return the element with the same keys of the former list; `_NONE` without one, or if it is no such list."""
        if not isinstance(former, list) or not _is_map(schema):
            return _NONE
        known = self._by_keys.get(id(former))
        if known is None:
            self.charge_steps(len(former))
            known = self._by_keys[id(former)] = {_identity(each, schema): each for each in reversed(former)}
        return known.get(_identity(element, schema), _NONE)

    def charge(self, schema: Schema) -> None:
        """Count the look at a value. Raise TooLargeError if there are too many."""
        steps = 1
        for name in _LONG:
            if schema.get(name):
                steps += len(schema[name]) // _NAMES_IN_STEP
        self.charge_steps(steps)

    def pattern(self, text: str) -> Pattern:
        """Return a compiled pattern, and count its states once; of one that cannot be used, as many as it could have.

        Raises:
            PatternError: it cannot be used.
            TooLargeError: the patterns have too many states in all.
        """
        if text not in self._patterns:
            if self._states_left < 0:
                raise TooLargeError("the patterns of its kind are too large in all")
            self._states_left -= STATES
            self._patterns[text] = found = pattern(text)
            self._states_left += STATES - found.states
        return self._patterns[text]

    def charge_steps(self, steps: int) -> None:
        """Count steps. Raise TooLargeError if there are too many."""
        self._left -= steps
        if self._left < 0 and self._whole is not None:  # only now, as it takes a while
            self._left += _STEPS * number_of_values(self._whole)
            self._whole = None
        if self._left < 0:
            raise TooLargeError("the schema of its kind has too many rules for so many values")
        charge_steps(steps)


def _faults(value: Any, schema: Schema, path: str, steps: Steps, former: Any = _NONE) -> Iterator[Cause]:
    if former is _NONE or not steps.is_same(value, former, schema):
        yield from _own_faults(value, schema, path, steps, former)


def _own_faults(value: Any, schema: Schema, path: str, steps: Steps, former: Any) -> Iterator[Cause]:
    steps.charge(schema)
    wanted = "integer,string" if schema.get(INT_OR_STRING) else schema.get("type")
    if value is None:
        if not schema.get("nullable") and wanted:
            yield _wrong_type(path, "null", wanted)
        if "enum" in schema:  # as in Kubernetes, whatever is in it
            yield unsupported(path, "null", schema["enum"])
        return
    found = _type_of(value)
    if wanted and not _is(value, found, wanted):
        yield _wrong_type(path, found, wanted)
        if "enum" in schema:
            yield unsupported(path, value, schema["enum"])
        return
    if "enum" in schema and not _is_in(value, schema["enum"]):
        yield unsupported(path, value, schema["enum"])
    if found == "string":
        yield from _text_faults(value, schema, path, steps)
    elif found in ("integer", "number"):
        yield from _number_faults(value, schema, path)
    elif found == "array":
        yield from _list_faults(value, schema, path, steps, former)
    elif found == "object":
        yield from _object_faults(value, schema, path, steps, former)
    if not _JUNCTORS.isdisjoint(schema):
        yield from _junctor_faults(value, schema, path, steps, former)


def _junctor_faults(value: Any, schema: Schema, path: str, steps: Steps, former: Any) -> Iterator[Cause]:
    for each in schema.get("allOf") or ():
        yield from _faults(value, each, path, steps, former)
    body = path or "<nil>"
    fitting = {word: sum(not _first(value, each, path, steps, of) for each in schema[word])
               for word, of in (("anyOf", former), ("oneOf", _NONE)) if schema.get(word)}  # fmt: skip
    if fitting.get("anyOf") == 0:
        yield invalid(path, value, f"{body} in body must validate at least one schema (anyOf)")
    if fitting.get("oneOf", 1) != 1:
        yield invalid(path, value, f"{body} in body must validate one and only one schema (oneOf)")
    if isinstance(schema.get("not"), dict) and not _first(value, schema["not"], path, steps):
        yield invalid(path, value, f"{body} in body must not validate the schema (not)")


def _text_faults(value: str, schema: Schema, path: str, steps: Steps) -> Iterator[Cause]:
    if len(value) < schema.get("minLength", 0):
        yield invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    elif len(value) > schema.get("maxLength", len(value)):
        yield Cause(path, f"Too long: may not be more than {schema['maxLength']} bytes", "FieldValueTooLong")
    elif "pattern" in schema:
        try:
            fits = steps.pattern(schema["pattern"]).search(value, steps.charge_steps)
        except PatternError as error:
            yield invalid(path, value, str(error))
        else:
            if not fits:
                yield invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if not fits_format(schema.get("format", ""), value):
        yield Cause(path, f"Invalid value: {shown(value)}: {path} in body must be of type {schema['format']}: "
                          f"{shown(value)}", "FieldValueInvalid")  # fmt: skip


def _number_faults(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if least is not None and (value < least or (schema.get("exclusiveMinimum") and value == least)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {words} {least}")
    if most is not None and (value > most or (schema.get("exclusiveMaximum") and value == most)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {words} {most}")
    is_exact = isinstance(value, int) and isinstance(factor, int)
    if factor and (value % factor if is_exact else abs(remainder(value, factor)) > _NEARLY * abs(factor)):
        yield invalid(path, value, f"{path} in body should be a multiple of {factor}")


def _list_faults(value: list[Any], schema: Schema, path: str, steps: Steps, former: Any) -> Iterator[Cause]:
    if len(value) < schema.get("minItems", 0):
        yield invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    if len(value) > schema.get("maxItems", len(value)):
        why = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        yield Cause(path, why, "FieldValueTooMany")
    for at, each in enumerate(value):
        before = steps.former_element(each, former, schema)
        yield from _faults(each, schema.get("items") or {}, f"{path}[{at}]", steps, before)
    if not steps.has_repeated:
        yield from _repeated(value, schema, path)


def _repeated(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    """Yield the elements of a set, or of a list with keys, that are there before."""
    if schema.get(_LIST_TYPE) not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for at, each in enumerate(value):
        text = _identity(each, schema)
        if text in seen:
            yield duplicate(f"{path}[{at}]", _keys_of(each, schema))
        seen.add(text)


def _is_map(schema: Schema) -> bool:
    return schema.get(_LIST_TYPE) == "map"


def _keys_of(element: Any, schema: Schema) -> Any:
    """Return what tells an element of a set, or of a list of the type `map`, from others."""
    if not _is_map(schema) or not isinstance(element, dict):
        return element
    return {key: element[key] for key in schema.get("x-kubernetes-list-map-keys") or () if key in element}


def _identity(element: Any, schema: Schema) -> bytes:
    return msgspec.json.encode(_keys_of(element, schema), order="sorted")


def _object_faults(value: dict[str, Any], schema: Schema, path: str, steps: Steps, former: Any) -> Iterator[Cause]:
    if len(value) < schema.get("minProperties", 0):
        yield invalid(path, len(value), f"{path} in body should have at least {schema['minProperties']} properties")
    if len(value) > schema.get("maxProperties", len(value)):
        why = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        yield Cause(path, why, "FieldValueTooMany")
    for name in schema.get("required") or ():
        if name not in value:
            yield required(_join(path, name))
    known = former if isinstance(former, dict) else {}
    for name, member in value.items():
        of = member_schema(schema, name)
        if of is not None:
            yield from _faults(member, of, _join(path, name), steps, known.get(name, _NONE))
    if schema.get(EMBEDDED):
        yield from embedded_faults(value, path)


def _wrong_type(path: str, found: str, wanted: str) -> Cause:
    return Cause(path, f'Invalid value: "{found}": {path or "<nil>"} in body must be of type {wanted}: "{found}"',
                 "FieldValueTypeInvalid")  # fmt: skip


def _type_of(value: Any) -> str:
    return _TYPES.get(type(value), "null")


def _is(value: Any, found: str, wanted: str) -> bool:
    """Return whether a value of a type is one of a wanted type, or of several after commas."""
    if found == wanted or (wanted == "number" and found == "integer"):
        return True
    if found == "number" and wanted.startswith("integer"):
        return bool(value.is_integer())
    return "," in wanted and found in wanted.split(",")


def _is_in(value: Any, values: list[Any]) -> bool:
    """Return whether a value is one of some. They are compared in C first, as there may be thousands."""
    return value in values and any(is_equal(value, each) for each in values[values.index(value) :])


def _join(path: str, name: str) -> str:
    if len(path) > _LONGEST_PATH:
        return path
    return f"{path}.{name[:_LONGEST_NAME]}" if path else name[:_LONGEST_NAME]
