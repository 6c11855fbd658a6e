"""The columns of devices: a JSONPath of their definitions reaches one property only."""

from collections.abc import Iterator
from typing import Final

from modules.apimachinery.device_properties import is_same_value
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at

_LONGEST: Final = 64
"""Characters of a value."""


def desired(device: JsonObject, _: float) -> str:
    """Return what is desired of each property: of v1beta1 in the spec, of v1alpha2 in the status."""
    found = [("name", each) for each in objects_at(device, "spec.properties")]
    found += [("propertyName", each) for each in objects_at(device, "status.twins")]
    return ",".join(
        f"{text_at(each, name)}={_short(value)}" for name, each in found if (value := text_at(each, "desired.value"))
    )


def valid(status: JsonObject, _: float) -> str:
    """Return the status of the first condition, which tells whether the device fits its model."""
    return next((text_at(each, "status") for each in objects_at(status, "status.conditions")), "")


def values(status: JsonObject, _: float) -> str:
    """Return the value of each property as reported, with the desired one where it is another."""
    return ",".join(_values(status))


def _values(status: JsonObject) -> Iterator[str]:
    for twin in objects_at(status, "status.twins"):
        wanted, reported = text_at(twin, "observedDesired.value"), text_at(twin, "reported.value")
        kind = text_at(twin, "reported.metadata.type")
        differs = f" ({_short(wanted)} is desired)" if wanted and not is_same_value(kind, wanted, reported) else ""
        yield f"{text_at(twin, 'propertyName')}={_short(reported)}{differs}"


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
