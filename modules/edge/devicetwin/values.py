"""Checks of a property's value: its size, its type, and the limits of the device's model. Pure."""

import base64
import binascii
import math
import re
from typing import Any, Final

import msgspec

from modules.edge.devicetwin.errors import BAD_KEY, BAD_REQUEST, BAD_VALUE, TOO_LARGE, TwinRefused

MAX_VALUE: Final = 64 * 1024
"""Longest value, in characters."""

MAX_PROPERTIES: Final = 100
"""Largest number of properties of one device, tombstones included."""

MAX_DEVICE: Final = 256 * 1024
"""Characters of all values of one device together, since they are stored in one row."""

_KEY: Final = re.compile(r"[a-zA-Z0-9\-_.,:/@#]{1,128}")
_PLAIN: Final = re.compile(r"[a-zA-Z0-9\-_.,:/@#]{0,512}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_LIMIT: Final = 2**63

NOT_INTEGER: Final = "the value is not int or integer"
NOT_FLOAT: Final = "the value is not float"
NOT_BOOLEAN: Final = "the bool value must be true or false"
NO_TYPE: Final = "the value type is not allowed"
"""KubeEdge's texts."""

TYPES: Final = ("string", "int", "integer", "float", "double", "boolean", "bytes")

_OF_MODELS: Final = {
    "int": "int",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "bytes": "bytes",
    "string": "string",
    "stream": "string",
}


class ModelProperty(msgspec.Struct, frozen=True, rename="camel"):
    """A property of a DeviceModel (`devices.kubeedge.io/v1beta1`)."""

    name: str = ""
    type: str = ""
    access_mode: str = ""
    minimum: str = ""
    maximum: str = ""
    unit: str = ""


def text_of(value: Any) -> str:
    """Return a JSON value in its stored form: a string unchanged, any other value as its JSON text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def check_key(name: str) -> None:
    """Raise TwinRefused unless a property may have this name."""
    if not _KEY.fullmatch(name):
        raise TwinRefused(BAD_REQUEST, BAD_KEY)


def check_text(name: str, text: str, *, plain: bool) -> None:
    """Raise TwinRefused for a value that is too long or, with `plain`, has characters that KubeEdge rejects."""
    if plain and not _PLAIN.fullmatch(text):
        raise TwinRefused(BAD_REQUEST, BAD_VALUE)
    if len(text) > MAX_VALUE:
        raise TwinRefused(TOO_LARGE, f"the value of {name} has {len(text)} characters; {MAX_VALUE} are allowed")


def check_type(kind: str, text: str) -> None:
    """Raise TwinRefused unless a text is a value of a type of KubeEdge's twins."""
    match kind.lower():
        case "" | "string":
            return
        case "int" | "integer":
            if not _is_integer(text):
                raise TwinRefused(BAD_REQUEST, NOT_INTEGER)
        case "float" | "double":
            if number_of(text) is None:
                raise TwinRefused(BAD_REQUEST, NOT_FLOAT)
        case "boolean":
            if text not in ("true", "false"):
                raise TwinRefused(BAD_REQUEST, NOT_BOOLEAN)
        case "bytes":
            if not _is_base64(text):
                raise TwinRefused(BAD_REQUEST, "the value is not base64")
        case _:
            raise TwinRefused(BAD_REQUEST, NO_TYPE)


def check_kind(kind: str) -> None:
    """Raise TwinRefused for a type that KubeEdge's twins do not support."""
    if kind.lower() not in ("", *TYPES):
        raise TwinRefused(BAD_REQUEST, NO_TYPE)


def check_model(model: ModelProperty, text: str) -> None:
    """Raise TwinRefused unless a value has the type of the model and lies between its minimum and maximum."""
    kind = _OF_MODELS.get(model.type.lower(), "string")
    try:
        check_type(kind, text)
    except TwinRefused as refused:
        raise TwinRefused(BAD_REQUEST, refused.reason + _wanted(model)) from None
    number = number_of(text) if kind in ("int", "float", "double") else None
    if number is None:
        return
    low, high = number_of(model.minimum), number_of(model.maximum)
    if (low is not None and number < low) or (high is not None and number > high):
        raise TwinRefused(BAD_REQUEST, f"the value {text[:64]} is out of range{_wanted(model)}")


def check_writable(model: ModelProperty) -> None:
    """Raise TwinRefused if the model does not allow an expected value."""
    if model.access_mode == "ReadOnly":
        raise TwinRefused(BAD_REQUEST, f"{model.name} is ReadOnly in the device's model: it takes no expected value")


def twin_type(model: ModelProperty | None) -> str:
    """Return the type of a new twin whose message does not state one."""
    return _OF_MODELS.get(model.type.lower(), "string") if model is not None else "string"


def number_of(text: str) -> float | int | None:
    """Return the number in a text; None if it is not a number, or not finite."""
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        number = float(text) if len(text) <= 512 and text == text.strip() and "_" not in text else math.nan
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


def _wanted(model: ModelProperty) -> str:
    """Return the values that the model allows, for the end of an error's text."""
    limits = f" {model.minimum or '…'} to {model.maximum or '…'}" if model.minimum or model.maximum else ""
    unit = f" {model.unit}" if model.unit and limits else ""
    return f" ({model.name} is {model.type}{limits}{unit} in the device's model)"
