"""Requests of applications and the cloud, decoded from untrusted JSON. Pure.

Like Go's decoder, this one ignores the case of keys, and unknown keys. Names of properties are data and keep their
case.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from modules.edge.devicetwin.errors import BAD_JSON, BAD_REQUEST, NO_TWIN, TwinRefused
from modules.edge.devicetwin.state import APPLICATION, Attribute
from modules.edge.devicetwin.values import MAX_PROPERTIES, check_key, check_text, text_of

MAX_TEXT: Final = 1024
"""Longest id, name, description or state, in characters."""

LONGEST_REFUSAL: Final = 300
"""Characters of a mapper's reason that are kept."""

MAX_DEVICES_IN_MESSAGE: Final = 10_000


class Version(NamedTuple):
    """The versions of one side."""

    cloud: int
    edge: int


class TwinRequest(msgspec.Struct, frozen=True):
    """The part of a message about one property."""

    expected: str | None = None
    actual: str | None = None
    optional: bool | None = None
    type: str | None = None
    """In lower case; None without one."""
    expected_version: Version | None = None
    actual_version: Version | None = None
    observed: str | None = None
    """The desired value that a mapper has received (DMI's `observedDesired`)."""


class TwinsRequest(msgspec.Struct, frozen=True):
    """A message about the properties of a device; None deletes a property."""

    event_id: str
    twins: dict[str, TwinRequest | None]
    by: str = APPLICATION
    """The writer of the expected values."""


class DeviceRequest(msgspec.Struct, frozen=True):
    """A device in a message about the membership."""

    id: str
    name: str = ""
    description: str = ""
    state: str = ""
    attributes: dict[str, Attribute] = {}
    twins: dict[str, TwinRequest | None] = {}


class MembershipRequest(msgspec.Struct, frozen=True):
    """The devices to add and to remove; or, in `devices`, the complete list."""

    event_id: str
    added: tuple[DeviceRequest, ...] = ()
    removed: tuple[DeviceRequest, ...] = ()
    devices: tuple[DeviceRequest, ...] | None = None


def read_object(text: bytes | str | msgspec.Raw) -> dict[str, Any]:
    """Return a JSON object. Raises TwinRefused for any other text."""
    try:
        value = decode_json(text, Any)
    except (msgspec.DecodeError, UnicodeError):
        raise TwinRefused(BAD_REQUEST, BAD_JSON) from None
    if not isinstance(value, dict):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    event_id, timestamp = field(value, "event_id"), field(value, "timestamp")
    if not isinstance(event_id, str | None) or isinstance(timestamp, str | float | bool | list | dict):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    if len(event_id or "") > MAX_TEXT:
        raise TwinRefused(BAD_REQUEST, f"the event_id has more than {MAX_TEXT} characters")
    return value


def event_id_of(request: Mapping[str, Any]) -> str:
    """Return the event_id of a request."""
    return field(request, "event_id") or ""


def read_twins(request: dict[str, Any], *, plain: bool = False) -> TwinsRequest:
    """Return the twins in a request. Raises TwinRefused with the request's event_id.

    Args:
        request: of `read_object`.
        plain: whether values are limited to KubeEdge's 512 characters of letters, digits and some signs.
    """
    event_id = event_id_of(request)
    try:
        twins = field(request, "twin")
        if twins is None:
            raise TwinRefused(BAD_REQUEST, NO_TWIN)
        return TwinsRequest(event_id, _twins(twins, plain=plain))
    except TwinRefused as refused:
        raise TwinRefused(refused.code, refused.reason, event_id) from None


def read_state(request: dict[str, Any]) -> str:
    """Return the state in a request. Raises TwinRefused."""
    state = field(request, "state")
    if not isinstance(state, str):
        raise TwinRefused(BAD_REQUEST, BAD_JSON, event_id_of(request))
    return state


def read_refusal(request: dict[str, Any]) -> str:
    """Return why a mapper does not take the device, from a request about its state; empty if none is given."""
    refusal = field(request, "refusal")
    return refusal[:LONGEST_REFUSAL] if isinstance(refusal, str) else ""


def read_membership(request: dict[str, Any]) -> MembershipRequest:
    """Return the membership in a message from the cloud. Raises TwinRefused."""
    detail = field(request, "devices")
    return MembershipRequest(
        event_id_of(request),
        _devices(field(request, "added_devices")),
        _devices(field(request, "removed_devices")),
        None if detail is None else _devices(detail),
    )


def read_attributes(request: dict[str, Any]) -> dict[str, Attribute]:
    """Return the attributes in a message from the cloud. Raises TwinRefused."""
    return _attributes(field(request, "attributes"))


def field(value: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key, in any case; None if it is missing."""
    if name in value:
        return value[name]
    return next((found for key, found in value.items() if key.lower() == name), None)


def _devices(value: Any) -> tuple[DeviceRequest, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_DEVICES_IN_MESSAGE:
        raise TwinRefused(BAD_REQUEST, f"devices must be a list of at most {MAX_DEVICES_IN_MESSAGE}")
    return tuple(_device(one) for one in value)


def _device(value: Any) -> DeviceRequest:
    if not isinstance(value, dict):
        raise TwinRefused(BAD_REQUEST, "a device must be an object")
    texts = {name: field(value, name) or "" for name in ("id", "name", "description", "state")}
    if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts.values()):
        raise TwinRefused(BAD_REQUEST, f"texts of a device must be strings of at most {MAX_TEXT} characters")
    twins = field(value, "twin")
    return DeviceRequest(
        **texts,
        attributes=_attributes(field(value, "attributes")),
        twins={} if twins is None else _twins(twins, plain=False),
    )


def _attributes(value: Any) -> dict[str, Attribute]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_PROPERTIES:
        raise TwinRefused(BAD_REQUEST, f"attributes must be an object of at most {MAX_PROPERTIES}")
    return {name: _attribute(name, one) for name, one in value.items() if one is not None}


def _attribute(name: str, value: Any) -> Attribute:
    check_key(name)
    if not isinstance(value, dict):
        raise TwinRefused(BAD_REQUEST, f"the attribute {name} must be an object")
    text = text_of(field(value, "value"))
    check_text(name, text, plain=False)
    return Attribute(text, _flag(value) is not False, _type(value) or "string")


def _twins(value: Any, *, plain: bool) -> dict[str, TwinRequest | None]:
    if not isinstance(value, dict):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    if len(value) > MAX_PROPERTIES:
        raise TwinRefused(BAD_REQUEST, f"a message may have {MAX_PROPERTIES} properties, this one has {len(value)}")
    return {name: None if one is None else _twin(name, one, plain=plain) for name, one in sorted(value.items())}


def _twin(name: str, value: Any, *, plain: bool) -> TwinRequest:
    check_key(name)
    if not isinstance(value, dict):
        raise TwinRefused(BAD_REQUEST, f"the twin {name} must be an object or null")
    return TwinRequest(
        _side(name, value, "expected", plain=plain),
        _side(name, value, "actual", plain=plain),
        _flag(value),
        _type(value),
        _version(value, "expected_version"),
        _version(value, "actual_version"),
        _side(name, value, "observed", plain=plain),
    )


def _side(name: str, twin: dict[str, Any], side: str, *, plain: bool) -> str | None:
    value = field(twin, side)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    inner = field(value, "value")
    if inner is None:
        raise TwinRefused(BAD_REQUEST, f"the {side} of {name} has no value")
    if plain and not isinstance(inner, str):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    text = text_of(inner)
    check_text(name, text, plain=plain)
    return text


def _flag(value: dict[str, Any]) -> bool | None:
    optional = field(value, "optional")
    if not isinstance(optional, bool | None):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    return optional


def _type(value: dict[str, Any]) -> str | None:
    metadata = field(value, "metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    kind = field(metadata, "type")
    if not isinstance(kind, str | None):
        raise TwinRefused(BAD_REQUEST, BAD_JSON)
    return None if kind is None else kind.lower()[:MAX_TEXT]


def _version(twin: dict[str, Any], name: str) -> Version | None:
    value = field(twin, name)
    if not isinstance(value, dict):
        return None
    numbers = [field(value, key) or 0 for key in Version._fields]
    if not all(isinstance(number, int) and 0 <= number < 2**63 for number in numbers):
        raise TwinRefused(BAD_REQUEST, f"{name} must have whole numbers")
    return Version(*numbers)
