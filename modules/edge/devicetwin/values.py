"""Checks of a property's value: its size, its type, and the limits of the device's model. Pure."""

from typing import Any, Final

import msgspec

from beehive.patterns import pattern
from modules.apimachinery import device_properties
from modules.apimachinery.device_properties import MAX_VALUE, NO_TYPE, ModelProperty
from modules.edge.devicetwin.errors import BAD_KEY, BAD_REQUEST, BAD_VALUE, TOO_LARGE, TwinRefused

MAX_PROPERTIES: Final = 100
"""Largest number of properties of one device, tombstones included."""

MAX_DEVICE: Final = 256 * 1024
"""Characters of all values of one device together, since they are stored in one row."""

TYPES: Final = ("string", "int", "integer", "float", "double", "boolean", "bytes")

_KEY: Final = pattern(r"[a-zA-Z0-9\-_.,:/@#]{1,128}")
_PLAIN: Final = pattern(r"[a-zA-Z0-9\-_.,:/@#]{0,512}")


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
    _refuse(device_properties.type_fault(kind, text))


def check_kind(kind: str) -> None:
    """Raise TwinRefused for a type that KubeEdge's twins do not support."""
    if kind.lower() not in ("", *TYPES):
        raise TwinRefused(BAD_REQUEST, NO_TYPE)


def check_reported(model: ModelProperty, text: str) -> None:
    """Raise TwinRefused unless a value has the type of the model and lies between its minimum and maximum."""
    _refuse(device_properties.value_fault(model, text))


def check_desired(model: ModelProperty, text: str) -> None:
    """Raise TwinRefused if the model forbids a desired value; an empty text desires nothing."""
    _refuse(device_properties.desired_fault(model, model.name, text))


def _refuse(fault: str) -> None:
    if fault:
        raise TwinRefused(BAD_REQUEST, fault)
