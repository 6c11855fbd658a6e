"""Frames to messages and back, exactly as a Go peer would read and write them.

The fast path is one typed pass over the envelope that leaves the content as it came. What Go's decoder tolerates
beyond that (keys in another case, `null` for a missing value, bytes after the first JSON value, invalid UTF-8)
takes the slow path. Everything else is a `FrameError`: a counted, logged rejection at the border, never an
exception inside a module.
"""

import json
from typing import Any, TypeVar

import msgspec

from beehive.errors import ContentError, FrameError
from beehive.message import Header, Message, Route

T = TypeVar("T")


class _Envelope(msgspec.Struct):
    """A message whose content stays as it came."""

    header: Header = Header()
    route: Route = Route()
    content: msgspec.Raw = msgspec.Raw(b"null")


_envelope = msgspec.json.Decoder(_Envelope)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()
_first_value = json.JSONDecoder()

_HEADER_TYPES: dict[str, type[Any]] = {
    "msg_id": str,
    "parent_msg_id": str,
    "timestamp": int,
    "resourceversion": str,
    "sync": bool,
    "type": str,
}
_ROUTE_TYPES: dict[str, type[Any]] = dict.fromkeys(Route.__struct_fields__, str)
_INT64 = range(-(2**63), 2**63)


def decode(frame: bytes | str) -> Message:
    """The message in a frame; its content stays undecoded.

    Raises:
        FrameError: the frame is not a message; `reason` is one of `empty`, `json`, `type`.
    """
    text = frame if isinstance(frame, str) else _utf8(frame)
    try:
        envelope = _envelope.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_leniently(text)
    header, route = envelope.header, envelope.route
    if header.msg_id and route.operation and header.timestamp in _INT64:
        return Message(header, route, envelope.content)
    return _decode_leniently(text)


def encode(message: Message) -> bytes:
    """The frame of a message: UTF-8 JSON, keys in Go's order, empty fields left out as Go leaves them out.

    Raises:
        ContentError: the content has no JSON form.
    """
    try:
        return _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        about = f"{message.route.operation} {message.route.resource} {message.id}"
        raise ContentError("cannot encode the content as JSON", about, str(error)) from error


def _utf8(frame: bytes) -> str:
    """Invalid bytes become U+FFFD, as encoding/json does it."""
    try:
        return str(frame, "utf-8")
    except UnicodeDecodeError:
        return str(frame, "utf-8", "replace")


def _decode_leniently(text: str) -> Message:
    top = _folded(_only_first_value(text), "message")
    header = _fields(top.get("header"), _HEADER_TYPES, "header")
    if header.get("timestamp", 0) not in _INT64:
        raise FrameError("type", "header.timestamp does not fit 64 bits", "milliseconds since 1970 are wanted")
    route = _fields(top.get("route"), _ROUTE_TYPES, "route")
    return Message(Header(**header), Route(**route), top.get("content", msgspec.Raw(b"null")))


def _only_first_value(text: str) -> str:
    stripped = text.lstrip(" \t\r\n")
    if not stripped:
        raise FrameError("empty", "no JSON value in it", "one JSON object a frame is wanted")
    try:
        _, end = _first_value.raw_decode(stripped)
    except (ValueError, RecursionError) as error:
        raise FrameError("json", _position(error), "one JSON object a frame is wanted") from error
    return stripped[:end]


def _position(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else type(error).__name__


def _folded(text: str | msgspec.Raw, path: str) -> dict[str, msgspec.Raw]:
    """The object's members by lower-case key (Go matches keys without case), without those that are null."""
    try:
        members = _object.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FrameError("type", f"{path}: {error}", "a JSON object is wanted") from error
    return {key.lower(): raw for key, raw in members.items() if bytes(raw) != b"null"}


def _fields(raw: msgspec.Raw | None, types: dict[str, type[Any]], path: str) -> dict[str, Any]:
    if raw is None:
        return {}
    members = _folded(raw, path)
    return {key: _value(members[key], kind, f"{path}.{key}") for key, kind in types.items() if key in members}


def _value(raw: msgspec.Raw, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise FrameError("type", f"{path}: {error}", "see spec of the header and route fields") from error
