"""Decodes frames to messages and encodes messages to frames, as a Go peer does with encoding/json.

The fast path is one typed pass over the envelope that leaves the content undecoded. Frames that only Go's decoder
accepts (keys in another case or twice, unknown keys, `null` for a missing value, bytes after the first JSON value,
invalid UTF-8) take the slow path, which reads member by member in order, as encoding/json does. Every other frame is a
`FrameError`: rejected, counted and logged at the border, never an exception inside a module.

Four differences to Go remain. The content is not decoded, so a number in it that no float64 can hold passes. Nesting is
limited to 256 levels instead of 10,000. A text of header or route has at most `LONGEST_TEXT`
bytes, because tables keep it and logs print it. The slow path is limited in bytes and members, because it costs a
hundred times as much; no Kubernetes object that a Go peer sends takes it. What surrounds a content has the same limit.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn, TypeVar, cast

import msgspec

from beehive.decoding import decode_json, json_decoder
from beehive.errors import ContentError, FrameError
from beehive.message import Header, Message, Route
from beehive.nesting import check_nesting, read_json
from beehive.patterns import pattern

T = TypeVar("T")


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """A message with undecoded content. An unknown key is an error, since it may be a known one in another case."""

    header: Header = Header()
    route: Route = Route()
    content: msgspec.Raw = msgspec.Raw(b"null")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_envelope = json_decoder(_Envelope)
_encoder = msgspec.json.Encoder()
_value_at = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant).raw_decode
_pairs = json.JSONDecoder(object_pairs_hook=list, parse_int=str, parse_float=str, parse_constant=_no_constant).decode
_space = re.compile(r"[ \t\n\r]*").match
_lone_surrogate = pattern("[\ud800-\udfff]")

_HEADER_TYPES: dict[str, type[Any]] = {
    "msg_id": str,
    "parent_msg_id": str,
    "timestamp": int,
    "resourceversion": str,
    "sync": bool,
    "type": str,
}
_ROUTE_TYPES: dict[str, type[Any]] = dict.fromkeys(Route.__struct_fields__, str)
_UTF8_BYTES = 4
"""Bytes that a character has at most."""
_INT64 = range(-(2**63), 2**63)
_MALFORMED = (msgspec.DecodeError, UnicodeError)
_NOT_UTF8 = pattern("[\udc80-\udcff]")
"""Python's characters for the bytes 128 to 255 that are not UTF-8 (`surrogateescape`)."""
LONGEST_TEXT: Final = 1024
"""Bytes that a text of header or route may have. KubeEdge's longest resource is `node/NODE/NAMESPACE/TYPE/NAME`, with
two names of 253 bytes and two of 63.
"""
SLOW_BYTES: Final = 128 * 1024
"""Bytes that a frame on the slow path may have: 25 ms at most of the only loop that reads the nodes' frames."""
_LONGEST_HEAD = 16 * 1024
"""Characters of header and route that are read twice."""
_SLOW_MEMBERS = 64
"""Members that a frame on the slow path, its header and its route may have each."""
_TOO_LARGE = f"header, route and frames of an unusual form have at most {SLOW_BYTES} bytes"
_CLOSING = len('"content":' + "}" + ',"route":{}')
"""Bytes around a content that ends the frame; below that, no header or route fits behind the content."""


def decode(frame: bytes | str) -> Message:
    """Decode the message in a frame; its content stays undecoded.

    Raises:
        FrameError: the frame is not a message; `reason` is one of `empty`, `json`, `type`, `too large`.
    """
    try:
        text = frame if isinstance(frame, str) else str(frame, "utf-8")
    except UnicodeDecodeError:
        text = _with_replacements(cast("bytes", frame))
    try:
        envelope = _envelope.decode(text)
    except _MALFORMED:
        return _of_usual_length(_decode_as_go(text))
    is_sized = text.isascii() or (isinstance(frame, bytes) and len(frame) > SLOW_BYTES)
    size = len(frame) if is_sized else len(text.encode())
    around = size - len(envelope.content)
    if around > SLOW_BYTES:
        raise FrameError("too large", f"{around} bytes around the content", _TOO_LARGE)
    if _may_repeat(text, size, envelope.content) or envelope.header.timestamp not in _INT64:
        return _of_usual_length(_decode_as_go(text))
    message = Message(envelope.header, envelope.route, envelope.content)
    return message if around <= LONGEST_TEXT else _of_usual_length(message)


def _of_usual_length(message: Message) -> Message:
    if too_long := _too_long(message):
        raise FrameError("too large", f"{too_long} is longer than {LONGEST_TEXT} bytes", "Kubernetes names are shorter")
    return message


def decode_head(frame: bytes) -> Message:
    """Return the message in a frame that is too long; its content is not read.

    Raises:
        FrameError: header and route do not come first, as Go's encoder writes them, or are none.
    """
    head, member, _ = frame[:_LONGEST_HEAD].partition(b'"content"')
    if not member:
        raise FrameError("too large", f"{len(frame)} bytes without a head", _TOO_LARGE)
    return decode(head.rstrip().removesuffix(b",") + b"}")


def encode(message: Message) -> bytes:
    """Encode a message as a frame: UTF-8 JSON with the keys in Go's order, without the empty fields that Go omits.

    Raises:
        ContentError: the content has no JSON form, or a text of header or route is longer than a peer may send.
    """
    content = message.content
    size = len(content) if isinstance(content, msgspec.Raw) else 0
    if not size and isinstance(content, msgspec.Raw):
        message = message.with_content(None)
    try:
        frame = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        about = f"{message.route.operation} {message.route.resource} {message.id}"
        raise ContentError("cannot encode the content as JSON", about, str(error)) from error
    if len(frame) - size > LONGEST_TEXT and (too_long := _too_long(message)):
        hint = f"{LONGEST_TEXT} bytes at most"
        raise ContentError("cannot encode a message", f"its {too_long} begins {message.route.resource[:80]!r}", hint)
    return frame


def _too_long(message: Message) -> str:
    """Return the name of a text of header or route that is too long, or an empty string."""
    header, route = message.header, message.route
    size = len(route.resource) + len(route.operation) + len(route.source) + len(route.group) + len(route.destination)
    size += len(header.msg_id) + len(header.parent_msg_id) + len(header.resourceversion) + len(header.type)
    if size * _UTF8_BYTES <= LONGEST_TEXT:
        return ""
    for part in (header, route):
        for name in part.__struct_fields__:
            text = getattr(part, name)
            if isinstance(text, str) and len(text.encode("utf-8", "surrogatepass")) > LONGEST_TEXT:
                return name
    return ""


def _with_replacements(frame: bytes) -> str:
    """Decode what is not UTF-8: each invalid byte becomes one U+FFFD, as in encoding/json.

    Raises:
        FrameError: it has more than `SLOW_BYTES`.
    """
    if len(frame) > SLOW_BYTES:
        raise FrameError("too large", f"{len(frame)} bytes that are not UTF-8", _TOO_LARGE)
    text = str(frame, "utf-8", "surrogateescape")
    for invalid in set(_NOT_UTF8.findall(text)):
        text = text.replace(invalid, "\ufffd")
    return text


def _may_repeat(text: str, size: int, content: msgspec.Raw) -> bool:
    """Return whether header or route may occur twice, which Go reads as one merged object.

    Only the text before the content is searched if no other member fits behind the content.
    """
    at = text.find('"content"')
    head = text[:at] if at >= 0 and size - at - len(content) < _CLOSING else text
    if head.count('"header"') > 1 or head.count('"route"') > 1:
        return True
    return "\\" in head and not _has_each_once(head)


def _has_each_once(head: str) -> bool:
    """Return whether the text before the content is header and route, each once, also if their keys are escaped.

    Go escapes the characters `&`, `<` and `>`, which may be in a resource.
    """
    if len(head) > _LONGEST_HEAD:
        return False
    try:
        keys = [key for key, _ in _pairs(f"{head.rstrip().removesuffix(',')}}}")]
    except (ValueError, TypeError):
        return False
    return len(keys) == len(set(keys))


def _decode_as_go(text: str) -> Message:
    if len(text) > SLOW_BYTES:
        raise FrameError("too large", f"{len(text)} characters of an unusual form", _TOO_LARGE)
    header: dict[str, Any] = {}
    route: dict[str, Any] = {}
    content = msgspec.Raw(b"null")
    for key, value in _members(_first_value(text), "message"):
        if key == "content":
            content = _raw(value)
        elif value == "null":
            continue
        elif key == "header":
            header.update(_fields(value, _HEADER_TYPES, "header"))
        elif key == "route":
            route.update(_fields(value, _ROUTE_TYPES, "route"))
    if header.get("timestamp", 0) not in _INT64:
        raise FrameError("type", "header.timestamp does not fit 64 bits", "milliseconds since 1970 are wanted")
    return Message(Header(**header), Route(**route), content)


def _first_value(text: str) -> str:
    """Return the text of the first JSON value and ignore the rest, as Go's stream decoder does."""
    begin = _skip_space(text, 0)
    if begin == len(text):
        raise FrameError("empty", "no JSON value in it", "one JSON object a frame is wanted")
    try:
        check_nesting(text)
        _, end = _value_at(text, begin)
    except ValueError as error:
        raise FrameError("json", _position(error), "one JSON object a frame is wanted") from error
    return text[begin:end]


def _position(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return str(error)


def _members(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the members of a valid JSON object in order: the key in lower case (Go ignores case), the value as text."""
    if text[0] != "{":
        raise FrameError("type", f"{path} is not an object", "a JSON object is wanted")
    at = _skip_space(text, 1)
    count = 0
    while text[at] != "}":
        count += 1
        if count > _SLOW_MEMBERS:
            raise FrameError("too large", f"{path} has more than {_SLOW_MEMBERS} members", "the fields are fixed")
        key, at = _value_at(text, at)
        begin = _skip_space(text, _skip_space(text, at) + 1)
        _, end = _value_at(text, begin)
        yield _folded(key), text[begin:end]
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)


def _folded(key: str) -> str:
    """Fold the case of a key; the long s is the one letter that Go folds and `lower` does not."""
    return key.lower().replace("\u017f", "s")


def _skip_space(text: str, at: int) -> int:
    match = _space(text, at)
    return at if match is None else match.end()


def _fields(text: str, types: dict[str, type[Any]], path: str) -> dict[str, Any]:
    """Return the known fields; a null is left out, so that an earlier value stays."""
    return {
        key: _value(value, types[key], f"{path}.{key}")
        for key, value in _members(text, path)
        if key in types and value != "null"
    }


def _value(text: str, kind: type[T], path: str) -> T:
    if kind is str and text[0] == '"':
        return cast("T", _without_surrogates(read_json(text)))
    try:
        return decode_json(text, kind)
    except _MALFORMED as error:
        raise FrameError("type", f"{path}: {error}", "see spec of the header and route fields") from error


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(_without_surrogates(text))


def _without_surrogates(text: str) -> str:
    """Replace lone surrogates, escaped or decoded from invalid UTF-8, by U+FFFD, as Go does."""
    return text if text.isascii() else _lone_surrogate.sub("\ufffd", text)
