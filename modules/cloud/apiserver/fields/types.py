"""The JSON types of an object's fields, checked with the words of Go's decoder for another type (400)."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final

from edged.api.quantity import QuantityError, parse_quantity
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import JsonObject, Kind
from modules.cloud.apiserver.fields.validation import known_fields

_QUANTITIES: Final = frozenset((
    "limits", "requests", "capacity", "allocatable", "allocatedResources", "overhead", "sizeLimit", "divisor", "hard",
    "used", "min", "max", "default", "defaultRequest", "maxLimitRequestRatio",
))  # fmt: skip
_BYTES: Final = frozenset(("V1Secret.data", "V1ConfigMap.binaryData"))
_INT64: Final = frozenset((
    "activeDeadlineSeconds", "deletionGracePeriodSeconds", "expirationSeconds", "fsGroup", "generation",
    "observedGeneration", "runAsGroup", "runAsUser", "seconds", "supplementalGroups", "terminationGracePeriodSeconds",
    "tolerationSeconds",
))  # fmt: skip
_GO: Final = {"str": "string", "bool": "bool", "float": "float64", "datetime": "string"}
_JSON: Final[dict[type[Any], str]] = {str: "string", list: "array", dict: "object", bool: "bool"}
_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_VERSION: Final = re.compile(r"^(?:Core)?V\d+(?:alpha\d+|beta\d+)?")
_LONGEST: Final = 40
_MANAGED: Final = "managedFields"
"""Kept in a form of the API server's own."""
_WIDTHS: Final = {"int32": 31, "int64": 63}


def check_types(kind: Kind, obj: JsonObject) -> None:
    """Check that the fields of an object have their types, and that quantities and bytes can be read.

    Raises:
        BadRequestError: one does not.
    """
    known = known_fields()
    of = known.kinds.get(kind.name)
    if of is None:
        return
    for why in _faults(known.types, of, obj, "", _name(of), ""):
        version = kind.api_version.rpartition("/")[2]
        raise BadRequestError(f'{kind.name} in version "{version}" cannot be handled as a {kind.name}: {why}')


def _faults(types: dict[str, dict[str, str]], of: str, value: Any, path: str, owner: str, field: str) -> Iterator[str]:
    """Yield the faults of a value.

    Args:
        types: the fields of all types.
        of: the value's type.
        value: the value.
        path: the names of the fields that lead to it.
        owner: the struct that has its field.
        field: its field.
    """
    if value is None:
        return
    if field in _QUANTITIES and of == "str":
        yield from _quantity(value)
    elif of.startswith("["):
        if not isinstance(value, list):
            yield _told(value, owner, path, _go_type(of, field))
            return
        for element in value:
            yield from _faults(types, of[1:], element, path, owner, field)
    elif of.startswith("{"):
        if not isinstance(value, dict):
            yield _told(value, owner, path, _go_type(of, field))
            return
        for member in value.values():
            yield from _faults(types, of[1:], member, path, owner, field)
    elif of in types:
        yield from _members(types, of, value, path, owner)
    elif not _fits(of, field, value):
        yield _told(value, owner, path, _go_type(of, field))


def _members(types: dict[str, dict[str, str]], of: str, value: Any, path: str, owner: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _told(value, owner, path, f"v1.{_name(of)}")
        return
    fields, name = types[of], _name(of)
    for field, member in value.items():
        wanted = fields.get(field)
        if (
            wanted is None
            or field == _MANAGED
            or (type(member) is str and wanted == "str" and field not in _QUANTITIES)
        ):
            continue
        place = f"{path}.{field}" if path else field
        yield from _faults(types, wanted, member, place, name, field)
        if f"{of}.{field}" in _BYTES and isinstance(member, dict):
            yield from _bytes(member)


def _fits(of: str, field: str, value: Any) -> bool:
    if of == "int":
        width = _WIDTHS[_go_type(of, field)]
        return type(value) is int and -(2**width) <= value < 2**width
    if of in ("str", "datetime"):
        return isinstance(value, str)
    if of == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, bool) if of == "bool" else True


def _quantity(value: Any) -> Iterator[str]:
    try:
        parse_quantity(value if isinstance(value, str | int | float) else "")
    except QuantityError:
        yield _QUANTITY


def _bytes(data: JsonObject) -> Iterator[str]:
    for text in data.values():
        try:
            base64.b64decode(str(text).replace("\n", "").replace("\r", ""), validate=True)
        except binascii.Error:
            good = re.match(r"[A-Za-z0-9+/]*", str(text))
            yield f"illegal base64 data at input byte {good.end() if good is not None else 0}"


def _go_type(of: str, field: str) -> str:
    if of.startswith("["):
        return f"[]{_go_type(of[1:], field)}"
    if of.startswith("{"):
        return f"map[string]{_go_type(of[1:], field)}"
    if of == "int":
        return "int64" if field in _INT64 else "int32"
    return _GO.get(of) or f"v1.{_name(of)}"


def _name(of: str) -> str:
    return _VERSION.sub("", of)


def _told(value: Any, owner: str, path: str, wanted: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        given = f"number {value}"[:_LONGEST] if wanted in _WIDTHS else "number"
    else:
        given = _JSON.get(type(value), "object")
    return f"json: cannot unmarshal {given} into Go struct field {owner}.{path} of type {wanted}"
