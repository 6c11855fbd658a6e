"""The values that a DeviceModel (`devices.kubeedge.io/v1beta1`) allows. Pure.

Every part that takes or passes on a desired value asks `desired_fault`: the embedded API server, devicecontroller,
devicetwin, dmi, and mappers in Python (their distribution has a copy). KubeEdge checks no value.
"""

import base64
import binascii
import math
import re
import struct
from typing import Final

import msgspec

MAX_VALUE: Final = 64 * 1024
"""Longest value, in characters."""

NOT_INTEGER: Final = "the value is not int or integer"
NOT_FLOAT: Final = "the value is not float"
NOT_BOOLEAN: Final = "the bool value must be true or false"
NOT_BASE64: Final = "the value is not base64"
NO_TYPE: Final = "the value type is not allowed"
"""KubeEdge's texts, and one more."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LIMIT: Final = 2**63
_LONGEST_NUMBER: Final = 512
_SHOWN: Final = 64
"""Characters of a name or value in a text."""

_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}
"""The spellings of Go's strconv.ParseBool; devicetwin takes the first of each alone."""

_TYPES_OF_TWINS: Final = {
    "int": "int",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "bytes": "bytes",
    "string": "string",
    "stream": "string",
}


class ModelProperty(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The rules of a DeviceModel for one property."""

    name: str = ""
    type: str = ""
    access_mode: str = ""
    minimum: str = ""
    maximum: str = ""
    unit: str = ""


def desired_fault(model: ModelProperty | None, name: str, text: str) -> str:
    """Return why a desired value is forbidden; empty if it is allowed, or if nothing is desired. A model whose limits
    cannot be checked allows none: a mistake in it must not let everything reach a machine.

    Args:
        model: the property in the device's model; None if the model does not have it.
        name: of the property.
        text: the desired value, or "".
    """
    if not text:
        return ""
    if model is None:
        return f"the device's model has no property {name[:_SHOWN]}"
    if fault := rules_fault(model):
        return f"{name[:_SHOWN]} takes no expected value: {fault}"
    return writable_fault(model) or value_fault(model, text)


def writable_fault(model: ModelProperty) -> str:
    """Return why a property takes no desired value at all; empty if it takes one."""
    if model.access_mode != "ReadOnly":
        return ""
    return f"{model.name[:_SHOWN]} is ReadOnly in the device's model: it takes no expected value"


def value_fault(model: ModelProperty, text: str) -> str:
    """Return why a value, reported or desired, is not one of the model's type between its minimum and maximum; empty if
    it is one.
    """
    if len(text) > MAX_VALUE:
        return f"the value of {model.name[:_SHOWN]} has {len(text)} characters; {MAX_VALUE} are allowed"
    kind = twin_type(model)
    fault = type_fault(kind, text)
    if fault:
        return fault + _allowed(model)
    number = number_of(text) if kind in ("int", "float", "double") else None
    if number is None:
        return ""
    low, high = number_of(model.minimum), number_of(model.maximum)
    if (low is not None and number < low) or (high is not None and number > high):
        return f"the value {text[:_SHOWN]} is out of range{_allowed(model)}"
    return ""


def type_fault(kind: str, text: str) -> str:
    """Return why a text is no value of a type of KubeEdge's twins; empty if it is one."""
    match kind.lower():
        case "" | "string":
            return ""
        case "int" | "integer":
            return "" if _is_integer(text) else NOT_INTEGER
        case "float" | "double":
            return "" if number_of(text) is not None else NOT_FLOAT
        case "boolean":
            return "" if text in ("true", "false") else NOT_BOOLEAN
        case "bytes":
            return "" if _is_base64(text) else NOT_BASE64
        case _:
            return NO_TYPE


def is_same_value(kind: str, one: str, other: str) -> bool:
    """Return whether two texts are one value of a type, such as "60" and "60.0" of a float: programs write them
    differently. A float has 32 bits, so "0.1" and "0.10000000149011612" are one, too. Texts that are no values of the
    type are compared as texts.

    Args:
        kind: a type of a DeviceModel, or of KubeEdge's twins, in small or capital letters.
        one: a value.
        other: another.
    """
    if one == other:
        return True
    value = _value(kind.lower(), one)
    return value is not None and value == _value(kind.lower(), other)


def _value(kind: str, text: str) -> float | bool | bytes | None:
    """Return the value of a text; None if it is none of the type, or if the type's values are texts."""
    match kind:
        case "int" | "integer" | "double":
            return number_of(text)
        case "float":
            number = number_of(text)
            return None if number is None else _single(number)
        case "boolean":
            return _BOOLEANS.get(text)
        case "bytes":
            return base64.b64decode(text) if text and _is_base64(text) else None
        case _:
            return None


def _single(number: float) -> float:
    """Return the nearest number of 32 bits; the number itself if it is too large for them."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return number
    return single


def rules_fault(model: ModelProperty) -> str:
    """Return why the limits of a property cannot be checked; empty if they can, or without limits."""
    if twin_type(model) not in ("int", "float", "double"):
        return ""
    for limit in (model.minimum, model.maximum):
        if limit and number_of(limit) is None:
            return f"the limit {limit[:_SHOWN]} is no number"
    low, high = number_of(model.minimum), number_of(model.maximum)
    if low is not None and high is not None and low > high:
        return f"the minimum {model.minimum[:_SHOWN]} lies above the maximum {model.maximum[:_SHOWN]}"
    return ""


def twin_type(model: ModelProperty | None) -> str:
    """Return the type of KubeEdge's twins that a property of a model has; a string without a model."""
    return _TYPES_OF_TWINS.get(model.type.lower(), "string") if model is not None else "string"


def number_of(text: str) -> float | int | None:
    """Return the number in a text; None if it is not a number, or not finite."""
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        is_plain = (
            text.isascii() and text == text.strip() and "_" not in text
        )  # mappers in other languages read no more
        number = float(text) if len(text) <= _LONGEST_NUMBER and is_plain else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -_LIMIT <= int(text) < _LIMIT


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _allowed(model: ModelProperty) -> str:
    """Return the values that the model allows, for the end of an error's text."""
    limits = f" {model.minimum or '…'} to {model.maximum or '…'}" if model.minimum or model.maximum else ""
    unit = f" {model.unit}" if model.unit and limits else ""
    return f" ({model.name} is {model.type}{limits}{unit} in the device's model)"
