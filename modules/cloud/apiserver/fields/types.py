"""The JSON types of an object's fields, checked with the words of Go's decoder for another type (400)."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from operator import is_
from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import without_null_members
from modules.apimachinery.go_values import base64_error, time_error
from modules.apimachinery.kinds import JsonObject, Kind, key_kind, kind_named
from modules.apimachinery.structural_schema.embedded import with_embedded
from modules.apimachinery.types.quantity import QuantityError, canonical_quantity, parse_quantity
from modules.apimachinery.validation.causes import shown
from modules.cloud.apiserver.fields.validation import known_fields, known_only

_QUANTITIES: Final = frozenset((
    "limits", "requests", "capacity", "allocatable", "allocatedResources", "overhead", "sizeLimit", "divisor", "hard",
    "used", "min", "max", "default", "defaultRequest", "maxLimitRequestRatio", "maximumVolumeSize", "podFixed",
    "averageValue", "V2MetricTarget.value", "V2MetricValueStatus.value",
))  # fmt: skip
_BYTES: Final = frozenset((
    "V1Secret.data", "V1ConfigMap.binaryData", "V1CertificateSigningRequestSpec.request",
    "V1CertificateSigningRequestStatus.certificate", "ApiextensionsV1WebhookClientConfig.caBundle",
))  # fmt: skip
_MICRO_TIMES: Final = frozenset((
    "CoreV1Event.eventTime", "CoreV1EventSeries.lastObservedTime", "V1LeaseSpec.acquireTime", "V1LeaseSpec.renewTime",
))  # fmt: skip
_NUMBERS_OR_TEXTS: Final = frozenset(("port", "targetPort", "maxSurge", "maxUnavailable", "minAvailable"))
_INT64: Final = frozenset((
    "activeDeadlineSeconds", "deletionGracePeriodSeconds", "expirationSeconds", "fsGroup", "generation", "gid",
    "gracePeriodSeconds", "maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties",
    "observedGeneration", "resourceSliceCount", "revision", "runAsGroup", "runAsUser", "seconds",
    "sizeBytes", "startingDeadlineSeconds", "supplementalGroups", "terminationGracePeriodSeconds", "tolerationSeconds",
    "uid",
))  # fmt: skip
TEXT: Final = "string"
_QUANTITY: Final = "resource.Quantity"
_BASE64: Final = "[]uint8"
TIME: Final = "v1.Time"
_MICRO_TIME: Final = "v1.MicroTime"
_NUMBER_OR_TEXT: Final = "intstr.IntOrString"
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")
_ANY: Final = ""
_RAW: Final = "runtime.RawExtension"
_PLAIN: Final = {"str": TEXT, "bool": "bool", "float": "float64", "int": "int32", "datetime": TIME, "object": _ANY}
_ZERO: Final = {
    TEXT: "",
    _BASE64: "",
    "bool": False,
    "float64": 0,
    "int32": 0,
    "int64": 0,
    _QUANTITY: "0",
    _NUMBER_OR_TEXT: 0,
}
"""Values for a null in a list or in a map, by type; other plain types have none."""
_JSON: Final[dict[type[Any], str]] = {str: "string", list: "array", dict: "object", bool: "bool"}
_GO: Final[dict[type[Any], str]] = {
    str: "string", list: "slice", dict: "map", bool: "bool", int: "int64", float: "float64"
}  # fmt: skip
_CONVERTIBLE: Final = {"int64": (TEXT, "int32", "int64"), "float64": ("int32", "int64")}
"""The types that Go can convert a number to, though the value does not fit."""
_QUANTITY_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_VERSION: Final = re.compile(r"^(?:Core|Authentication)?V\d+(?:alpha\d+|beta\d+)?")
_LONGEST: Final = 40
_METADATA: Final = "V1ObjectMeta"
_AS_GIVEN: Final = frozenset(("V1ControllerRevision.data", "V1ManagedFieldsEntry.fieldsV1"))
"""Stay as they are: the first is compared byte by byte by kube-controller-manager."""
INTEGER_BITS: Final = {"int32": 31, "int64": 63}


def decoded(kind: Kind, obj: JsonObject, stored: Iterable[Any] = ()) -> JsonObject:
    """Return an object as Go's decoder reads it, after checking the types of its fields. Null members are left out,
    a null in a list or a map is the zero value of its type, quantities are canonical, and base64 is one line. It is the
    same object if nothing of it changes.

    Args:
        kind: its kind.
        obj: the object.
        stored: structs of the stored object; those in a list of the object are taken as they are.

    Raises:
        DecodingError: a field has another type, or a time, a quantity or base64 cannot be read.
    """
    of = known_fields().kinds.get(kind.key_name)
    return obj if of is None else _decoded(kind, of, obj, stored)


def decoded_custom(kind: Kind, obj: JsonObject) -> JsonObject:
    """Return a custom object with its metadata as Go's decoder reads them; its other members have a schema.

    Raises:
        DecodingError: as for other objects.
    """
    given = obj.get("metadata")
    if given is None:
        return obj
    metadata = _decoded(kind, _METADATA, given)
    return obj if metadata is given else {**obj, "metadata": metadata}


def with_read_embedded(kind: Kind, schema: JsonObject, obj: JsonObject) -> JsonObject:
    """Return a custom object with the metadata of the objects inside it (`x-kubernetes-embedded-resource`) as Go's
    decoder reads them: without unknown and empty fields.

    Args:
        kind: its kind.
        schema: its schema.
        obj: the object.

    Raises:
        DecodingError: a field has another type.
    """

    def read(name: str, value: Any, path: str) -> Any:
        if name != "metadata":
            if not isinstance(value, str):
                raise DecodingError(kind, _another_type(path, value, "must be a string"))
            return value
        try:
            found = _decoded(kind, _METADATA, {} if value is None else value)
        except DecodingError as error:
            raise DecodingError(kind, _another_type(path, value, error.why)) from error
        known = known_only(_METADATA, found)
        return {field: member for field, member in known.items() if member or field == "deletionGracePeriodSeconds"}

    found: JsonObject = with_embedded(obj, schema, read)
    return found


def _decoded(kind: Kind, of: str, value: Any, stored: Iterable[Any] = ()) -> JsonObject:
    decoder = _Decoder(stored)
    try:
        found: JsonObject = decoder.struct(of, value, "", "")
    except _UnreadableError as error:
        decoder.fault = error.fault
    if decoder.fault is None:
        return found
    raise DecodingError(kind, decoder.fault)


def with_stored_quantities(new: JsonObject, live: JsonObject) -> JsonObject:
    """Return a decoded new state of an object, with quantities written as the stored ones where their values are equal.
    Earlier versions stored them as they came, and nodes make containers anew whose text has changed.
    """
    of = known_fields().kinds.get(key_kind(live))
    if of is None or not _has_quantities(of) or not _has_other_texts(new, live):
        return new
    try:
        read = decoded(kind_named(live["kind"]), live)
    except DecodingError:
        return new
    if read is live:
        return new
    found: JsonObject = _with_texts(new, read, live)
    return found


def _has_other_texts(new: Any, stored: Any) -> bool:
    """Return whether a value, which may be a quantity, is written in another way than the stored one. Most updates have
    none, and need not decode the stored object.
    """
    if new is stored or new == stored:
        return False
    match new, stored:
        case dict(), dict():
            return any(_has_other_texts(value, stored.get(name)) for name, value in new.items())
        case list(), list() if len(new) == len(stored):
            return any(map(_has_other_texts, new, stored))
        case str(), str() | int() | float():
            try:
                return parse_quantity(new) == parse_quantity(str(stored).strip())
            except QuantityError:
                return False
    return False


def _with_texts(new: Any, read: Any, stored: Any) -> Any:
    match new, read, stored:
        case dict(), dict(), dict():
            return {name: _with_texts(value, read.get(name), stored.get(name)) for name, value in new.items()}
        case list(), list(), list() if len(new) == len(read) == len(stored):
            return list(map(_with_texts, new, read, stored))
        case str(), str(), str() | int() | float() if new == read:
            return stored
    return new


class _Fault(NamedTuple):
    """Why a value cannot be read."""

    why: str
    """The words of Go's decoder."""
    converted: str
    """The words of Kubernetes' converter, which reads what a strategic merge patch makes of an object
    (`FromUnstructured` in apimachinery/pkg/runtime/converter.go)."""


def _another_type(path: str, value: Any, why: str) -> _Fault:
    told = f"{path}: Invalid value: {shown(value)}: {why}"
    return _Fault(told, told)


class DecodingError(BadRequestError):
    """An object cannot be read as one of its kind.

    Args:
        kind: the kind.
        fault: why.
    """

    def __init__(self, kind: Kind, fault: _Fault) -> None:
        version = kind.api_version.rpartition("/")[2]
        super().__init__(f'{kind.name} in version "{version}" cannot be handled as a {kind.name}: {fault.why}')
        self.why, self.converted = fault


class _UnreadableError(Exception):
    """A type with a reader of its own (`UnmarshalJSON`) has refused a value, which ends Go's decoding at once.

    Args:
        why: the words of Go's decoder.
        converted: those of Kubernetes' converter, if they are others.
    """

    def __init__(self, why: str, converted: str = "") -> None:
        super().__init__(why)
        self.fault = _Fault(why, converted or why)


class _Decoder:
    """A decoder of an object by its types. Of faults that do not end the decoding, the first one counts.

    Args:
        stored: structs that were read before.
    """

    def __init__(self, stored: Iterable[Any] = ()) -> None:
        self.fault: _Fault | None = None
        self._stored = set(map(id, stored))
        self._types = go_types()

    def struct(self, of: str, value: Any, path: str, owner: str) -> Any:
        """Return a struct.

        Args:
            of: its type.
            value: the value.
            path: the names of the fields that lead to it.
            owner: the struct that has its field.
        """
        name = _name(of)
        if not isinstance(value, dict):
            return self._refuse(value, owner, path, _go_name(of))
        fields, found, is_same = self._types[of], JsonObject(), True
        for field, member in value.items():
            wanted = fields.get(field, _ANY)
            if type(member) is str and wanted == TEXT:
                found[field] = member
            elif member is None:
                is_same = False
            else:
                read = self.struct if wanted in self._types else self._value
                found[field] = kept = read(wanted, member, f"{path}.{field}" if path else field, name)
                is_same = is_same and kept is member
        return value if is_same else found

    def _value(self, of: str, value: Any, path: str, owner: str) -> Any:
        """Return a value of another type than a struct."""
        mark = of[:1]
        if mark == "*":
            return self._list(of[1:], value, path, owner)
        if mark == "{":
            return self._map(of[1:], value, path, owner)
        if of in (_ANY, _RAW):
            return value if of == _RAW else _without_nulls(value)
        if of == _QUANTITY:
            found = _quantity_of_text(value) if type(value) is str else _quantity(value)
            return value if found == value else found
        self._check(of, value, path, owner)
        return value.translate(_LINE_ENDS) if of == _BASE64 and _is_in_lines(value) else value

    def _list(self, of: str, value: Any, path: str, owner: str) -> Any:
        if not isinstance(value, list):
            if isinstance(value, msgspec.Raw):  # the managers of a stored object
                return value
            return self._refuse(value, owner, path, f"[]{_go_name(of)}")
        read = self.struct if of in self._types else self._value
        found = [
            each if id(each) in self._stored else self._zero(of) if each is None else read(of, each, path, owner)
            for each in value
        ]
        return value if all(map(is_, found, value)) else found

    def _map(self, of: str, value: Any, path: str, owner: str) -> Any:
        if not isinstance(value, dict):
            return self._refuse(value, owner, path, f"map[string]{_go_name(of)}")
        if of == TEXT and {*map(type, value.values())} <= {str}:
            return value
        read = self.struct if of in self._types else self._value
        found = {key: self._zero(of) if each is None else read(of, each, path, owner) for key, each in value.items()}
        return value if all(map(is_, found.values(), value.values())) else found

    def _zero(self, of: str) -> Any:
        return {} if of in self._types else _ZERO.get(of)

    def _check(self, of: str, value: Any, path: str, owner: str) -> None:
        """Check a value of a type without members."""
        if of in (TIME, _MICRO_TIME):
            if not isinstance(value, str):
                raise _unreadable(value, owner, path, TEXT)
            if why := time_error(value, is_micro=of == _MICRO_TIME):
                raise _UnreadableError(why)
        elif of == _NUMBER_OR_TEXT:
            if not isinstance(value, str) and not _fits("int32", value):
                raise _unreadable(value, owner, path, "int32")
        elif not _fits(of, value):
            self._refuse(value, owner, path, of)
        elif of == _BASE64 and (why := base64_error(value)):
            self.fault = self.fault or _Fault(why, f"error decoding from json: {why}")

    def _refuse(self, value: Any, owner: str, path: str, wanted: str) -> Any:
        self.fault = self.fault or _Fault(_described(value, owner, path, wanted), _converted(value, wanted))
        return value


def _is_in_lines(value: Any) -> bool:
    return isinstance(value, str) and ("\n" in value or "\r" in value)


def _without_nulls(value: Any) -> Any:
    return without_null_members(value) if isinstance(value, dict | list) else value


def _fits(of: str, value: Any) -> bool:
    if of in INTEGER_BITS:
        return type(value) is int and -(2 ** INTEGER_BITS[of]) <= value < 2 ** INTEGER_BITS[of]
    if of in (TEXT, _BASE64):
        return isinstance(value, str)
    if of == "float64":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, bool)


def _quantity(value: Any) -> str:
    """Return a quantity in Kubernetes' stored form."""
    text = value.strip() if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    try:
        parse_quantity(text)
    except QuantityError as error:
        raise _UnreadableError(_QUANTITY_ERROR) from error
    return canonical_quantity(text)


_quantity_of_text: Final = lru_cache(1024)(_quantity)
"""The same of a text: a node reports the same ones each time, and one that cannot be read is not kept."""


@cache
def go_types() -> dict[str, dict[str, str]]:
    """Return the fields of all types with Go's types: a struct's name in `fields.json` or a plain type, after `*` for a
    slice and `{` for a map.
    """
    return {
        name: {field: _go_type(name, field, kind) for field, kind in fields.items()}
        for name, fields in known_fields().types.items()
    }


@cache
def _has_quantities(of: str, above: tuple[str, ...] = ()) -> bool:
    """Return whether a type has a quantity, or a member with one; `above` are the types that contain it."""
    types = go_types()
    fields = {each.lstrip("*{") for each in types[of].values()}
    below = fields & types.keys() - {of, *above}
    return _QUANTITY in fields or any(_has_quantities(each, (*above, of)) for each in below)


def _go_type(owner: str, field: str, kind: str) -> str:
    marks = kind[: len(kind) - len(kind.lstrip("[{"))]
    plain, place = kind[len(marks) :], f"{owner}.{field}"
    found = _PLAIN.get(plain, plain)
    if place in _BYTES:
        found = _BASE64
    elif place in _MICRO_TIMES:
        found = _MICRO_TIME
    elif place in _AS_GIVEN:
        found = _RAW
    elif plain == "str" and not _QUANTITIES.isdisjoint((field, place)):
        found = _QUANTITY
    elif plain == "int" and field in _INT64:
        found = "int64"
    elif plain == "object" and field in _NUMBERS_OR_TEXTS:
        found = _NUMBER_OR_TEXT
    return marks.replace("[", "*") + found


def type_of_several(owner: str, field: str) -> str:
    """Return the name of the type of a field that is a quantity or a number or text: each has several forms in JSON;
    "" for another field.
    """
    found = go_types()[owner][field].lstrip("*{")
    return found.rpartition(".")[2] if found in (_QUANTITY, _NUMBER_OR_TEXT) else ""


def _go_name(of: str) -> str:
    """Return a type as Go's messages name it."""
    if of.startswith("*"):
        return f"[]{_go_name(of[1:])}"
    if of.startswith("{"):
        return f"map[string]{_go_name(of[1:])}"
    return f"{'v2' if of.startswith('V2') else 'v1'}.{_name(of)}" if of in go_types() else of


@cache
def _name(of: str) -> str:
    return _VERSION.sub("", of)


def _unreadable(value: Any, owner: str, path: str, wanted: str) -> _UnreadableError:
    given = f"json: cannot unmarshal {_given(value, wanted)} into Go value of type {wanted}"
    return _UnreadableError(_described(value, owner, path, wanted), given)


def _described(value: Any, owner: str, path: str, wanted: str) -> str:
    place = f"struct field {owner}.{path}" if owner else "value"
    return f"json: cannot unmarshal {_given(value, wanted)} into Go {place} of type {wanted}"


def _given(value: Any, wanted: str) -> str:
    """Return a value as Go's decoder names it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"number {value}"[:_LONGEST] if wanted in INTEGER_BITS else "number"
    return _JSON.get(type(value), "object")


def _converted(value: Any, wanted: str) -> str:
    """Return why a value of another type is not converted to a type."""
    given = _GO.get(type(value), "map")
    if wanted.startswith(("map[", "[]")):
        return f"cannot restore {'map' if wanted.startswith('m') else 'slice'} from {given}"
    if wanted.startswith(("v1.", "v2.")):
        return f"cannot restore struct from: {given}"
    if wanted in _CONVERTIBLE.get(given, ()):
        return f"cannot convert {given} to {wanted}"
    return f"unrecognized type: {wanted}"
