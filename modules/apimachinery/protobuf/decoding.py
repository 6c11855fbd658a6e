"""Decodes bodies in Kubernetes' protobuf to the JSON that they stand for (apimachinery's `serializer/protobuf`).

A Go client writes empty texts and times of fields that JSON leaves out, and zeros and falses, too; they are left out
here. Fields that JSON always has stay, such as the message of a condition, and so do pointers' values, which mean
something.
"""

import base64
import math
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.limits import VALUES

MEDIA: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_OPTIONS: Final = "DeleteOptions"
_DEEPEST: Final = 96
"""Messages in messages; a pod has ten, and a schema with lists at each of its 40 levels 86."""
_LARGEST_EXACT: Final = 2**53
_LONGEST_NUMBER: Final = 10
"""Bytes of a number of 64 bits."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_Left = Iterator[int]
"""Yields once for each member that a body may still have."""


class ProtobufError(ValueError):
    """A body that is no object in protobuf."""


class TooManyMembersError(ProtobufError):
    """A body with more members than a request may have."""


class MessageField(msgspec.Struct, frozen=True):
    """A field of a message, as JSON has it."""

    name: str
    """Empty: the fields of the message are in the place of the message."""
    kind: str
    """`s` text, `b` bytes, `t` boolean, `i` integer, `d` number; otherwise the name of a message."""
    form: str
    """`[` list, `{` map of texts to the kind; empty: one value."""
    is_never_zero: bool
    """Whether zero, false, an empty text, list or map is the same as none: JSON leaves it out (`omitempty`)."""
    is_message: bool


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    return decode_json(Path(__file__).with_name("messages.json").read_bytes(), _Table)


@cache
def fields_of(message: str) -> dict[int, MessageField]:
    """Return the fields of a message by number."""
    return {int(number): _field(text) for number, text in _table().types[message].items()}


def message_of(api_version: str, kind: str) -> str | None:
    """Return the name of a kind's message, or None for a kind that is not known here."""
    return _table().kinds.get(f"{api_version}/{kind}")


def _field(text: str) -> MessageField:
    name, _, kind = text.partition(":")
    form = kind[0] if kind[0] in "[{" else ""
    of = kind.strip("[{>?")
    return MessageField(name, of, form, kind.endswith("?"), ">" in kind and of not in _NO_MESSAGES)


def decode_protobuf(body: bytes, most: int = VALUES) -> dict[str, Any]:
    """Return the object in a body, with its kind and apiVersion.

    Args:
        body: the body.
        most: values that it may have.

    Raises:
        TooManyMembersError: it has more than twice as many members.
        ProtobufError: it is no such body, or its kind is unknown here.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    left = iter(range(2 * most))
    whole = dict(_members(memoryview(body)[len(_MAGIC) :], left))
    about, raw = (whole.get(number, b"") for number in (1, 2))
    if isinstance(about, int) or isinstance(raw, int):
        raise ProtobufError("the envelope has the wrong form")
    names = {number: _text(value) for number, value in _members(memoryview(about), left) if not isinstance(value, int)}
    version, kind = names.get(1, ""), names.get(2, "")
    message = message_of("" if kind == _OPTIONS else version, kind)
    if message is None:
        raise ProtobufError(f'no kind "{kind[:100]}" is registered for version "{version[:100]}" in protobuf')
    return {"kind": kind, "apiVersion": version, **_message(message, memoryview(raw), 0, left)}


def _members(data: memoryview, left: _Left) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each member of a message."""
    at = 0
    while at < len(data):
        if next(left, None) is None:
            raise TooManyMembersError("it has too many members")
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES or wire in _FIXED:
            size, at = (_FIXED[wire], at) if wire in _FIXED else _varint(data, at)
            if size > len(data) - at:
                raise ProtobufError("unexpected EOF")
            yield number, data[at : at + size]
            at += size
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_NUMBER):
        if at + index >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    raise ProtobufError("proto: integer overflow")


def _message(name: str, data: memoryview, depth: int, left: _Left) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise ProtobufError(f"more than {_DEEPEST} messages in messages")
    fields, made = fields_of(name), dict[str, Any]()
    for number, value in _members(data, left):
        field = fields.get(number)
        if field is None:
            continue
        if field.form == "{":
            key, member = _entry(field, value, depth, left)
            made.setdefault(field.name, {})[key] = member
            continue
        decoded = _value(field.kind, value, depth, left)
        if field.form == "[":
            made.setdefault(field.name, []).append(decoded)
        elif not field.name:
            made.update(decoded)
        elif decoded or not (decoded is None or field.is_never_zero):
            made[field.name] = decoded
    return made


def _entry(field: MessageField, value: int | memoryview, depth: int, left: _Left) -> tuple[str, Any]:
    members = dict(_members(_bytes(value), left))
    return _text(members.get(1, b"")), _value(field.kind, members.get(2, b""), depth, left)


def _value(kind: str, value: int | memoryview | bytes, depth: int, left: _Left) -> Any:
    if kind == "s":
        return _text(value)
    if kind == "b":
        return base64.b64encode(_bytes(value)).decode()
    if kind in ("i", "t"):
        return bool(_integer(value)) if kind == "t" else _integer(value)
    if kind == "d":
        return _double(_bytes(value))
    if special := _SPECIAL.get(kind):
        return special(_bytes(value), left)
    message = _message(kind, _bytes(value), depth + 1, left)
    return _alternative(message) if kind in _ALTERNATIVES else message


def _integer(value: int | memoryview | bytes) -> int:
    number = value if isinstance(value, int) else 0
    return number - (1 << 64 if number >> 63 else 0)


def _bytes(value: int | memoryview | bytes) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType")
    return memoryview(value)


def _text(value: int | memoryview | bytes) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError as error:
        raise ProtobufError("proto: a text is not UTF-8") from error


def _double(data: memoryview) -> int | float:
    """Return a number as JSON has it, where 1 and 1.0 are the same."""
    if len(data) != _FIXED[_FIXED64]:
        raise ProtobufError("proto: wrong wireType")
    (number,) = struct.unpack("<d", data)
    if not math.isfinite(number):
        raise ProtobufError(f"{number} is no number in JSON")
    return int(number) if number.is_integer() and abs(number) < _LARGEST_EXACT else float(number)


def _alternative(members: dict[str, Any]) -> Any:
    """Return a part of a schema that is one of several: a schema, a list, or a switch."""
    return next((members[name] for name in ("schema", "jSONSchemas", "property", "allows") if name in members), None)


def _time(data: memoryview, left: _Left, timespec: str = "seconds") -> str | None:
    """Return a time as RFC 3339 has it; None for no time."""
    numbers = dict(_members(data, left))
    seconds, nanos = (_integer(numbers.get(number, 0)) for number in (1, 2))
    if not seconds and not nanos:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000 % 1_000_000, tzinfo=None)
    except (OverflowError, ValueError, OSError) as error:
        raise ProtobufError("a time is out of range") from error
    return f"{moment.isoformat(timespec=timespec)}Z"


def _quantity(data: memoryview, left: _Left) -> str:
    return _text(dict(_members(data, left)).get(1, b"0"))


def _int_or_string(data: memoryview, left: _Left) -> int | str:
    members = dict(_members(data, left))
    return _text(members.get(3, b"")) if members.get(1) == 1 else _integer(members.get(2, 0))


def _raw_json(data: memoryview, left: _Left) -> Any:
    try:
        return decode_json(_bytes(dict(_members(data, left)).get(1, b"{}")))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ProtobufError("a field with JSON has none") from error


def _items(data: memoryview, left: _Left) -> list[str]:
    return [_text(value) for number, value in _members(data, left) if number == 1]


_SPECIAL: Final = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": lambda data, left: _time(data, left, "microseconds"),
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "meta.v1.FieldsV1": _raw_json,
    "runtime.RawExtension": _raw_json,
    "apiextensions.v1.JSON": _raw_json,
    "authentication.v1.ExtraValue": _items,
    "authorization.v1.ExtraValue": _items,
    "certificates.v1.ExtraValue": _items,
}
_ALTERNATIVES: Final = frozenset(
    f"apiextensions.v1.JSONSchemaPropsOr{other}" for other in ("Array", "Bool", "StringArray")
)
"""Messages of which JSON has one member in their place."""
_NO_MESSAGES: Final = _ALTERNATIVES | _SPECIAL.keys()
"""Messages that are no objects of their fields in JSON."""
