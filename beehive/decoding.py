"""JSON, msgpack and plain values to typed ones, from any thread.

msgspec resolves the annotations of a Struct when the type is first decoded, and shows the type to other threads while
some of its fields are still null pointers: two threads that decode a type for the first time, simultaneously, can end
the process with a segmentation fault (msgspec 0.22). Here a lock surrounds the resolution; later uses take none. All
decoding of the project goes through this module, or `beehive.nesting` where Python's decoder is needed.
"""

import base64
import binascii
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

from beehive.nesting import LEVELS, NestingError, check_nesting

T = TypeVar("T")

_DIGITS: Final = 20
"""Digits that a value may have on average: reading and writing an integer takes the square of their number."""
_ALL_DIGITS: Final = b"0123456789"
_PREFIX: Final = 1024 * 1024
"""Size from which a text of nothing but values exceeds every limit of values."""

Hook = Callable[[type, Any], Any]
"""Makes a value of a type that msgspec does not know."""

JsonText = bytes | bytearray | memoryview | str | msgspec.Raw


class DeepJsonError(NestingError, msgspec.DecodeError):
    """A JSON text is nested too deeply; whoever handles text that is not JSON handles it, too."""


class NoUnicodeError(UnicodeError, msgspec.DecodeError):
    """A text in a JSON text is not Unicode; whoever handles text that is not JSON handles it, too."""


class JsonDecoder(Generic[T]):
    """A decoder of JSON to a type; the nesting of what it decodes is bounded (`beehive.nesting`)."""

    __slots__ = ("_decode",)

    def __init__(self, kind: Any) -> None:
        self._decode = msgspec.json.Decoder(kind).decode

    def decode(self, text: JsonText) -> T:
        """Return the value. Raises msgspec.DecodeError; its ValidationError has the path."""
        if len(text) > LEVELS:  # each level has a byte
            plain = bytes(text) if isinstance(text, memoryview | msgspec.Raw) else text
            if isinstance(plain, str):
                brackets = plain.count("[") + plain.count("{")
            else:
                brackets = len(plain) - len(plain.translate(None, b"[{"))
            if brackets > LEVELS:
                check_nesting(plain, DeepJsonError)
        try:
            decoded: T = self._decode(text)
        except UnicodeError as error:
            raise NoUnicodeError(str(error)) from None
        return decoded


_resolving: Final = threading.Lock()
_json: Final[dict[Any, JsonDecoder[Any]]] = {}


@overload
def json_decoder(kind: type[T]) -> JsonDecoder[T]: ...
@overload
def json_decoder(kind: Any) -> JsonDecoder[Any]: ...
def json_decoder(kind: Any) -> JsonDecoder[Any]:
    """Return the decoder of JSON to a type, the same one at every call. Types that it decodes to are resolved."""
    decoder = _json.get(kind)
    if decoder is None:
        with _resolving:
            decoder = _json.setdefault(kind, JsonDecoder(kind))
    return decoder


@overload
def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]: ...
@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return a new decoder of msgpack to a type."""
    with _resolving:
        return msgspec.msgpack.Decoder(kind)


@overload
def decode_json(text: JsonText, kind: type[T]) -> T: ...
@overload
def decode_json(text: JsonText, kind: Any = Any) -> Any: ...
def decode_json(text: JsonText, kind: Any = Any) -> Any:
    """Return the value of type `kind` in a JSON text. Raises as `JsonDecoder.decode`."""
    return (_json.get(kind) or json_decoder(kind)).decode(text)


@overload
def convert(
    value: Any, kind: type[T], dec_hook: Hook | None = None, strict: bool = True, *, from_attributes: bool = False
) -> T: ...
@overload
def convert(
    value: Any, kind: Any, dec_hook: Hook | None = None, strict: bool = True, *, from_attributes: bool = False
) -> Any: ...
def convert(
    value: Any, kind: Any, dec_hook: Hook | None = None, strict: bool = True, *, from_attributes: bool = False
) -> Any:
    """Return a decoded value as one of type `kind`. Raises msgspec.ValidationError.

    `dec_hook`, `strict` and `from_attributes` are as for msgspec.
    """
    if kind not in _json:
        json_decoder(kind)
    return msgspec.convert(value, kind, dec_hook=dec_hook, strict=strict, from_attributes=from_attributes)


def encode_to_keep(value: Any) -> bytes:
    """Return a value as JSON, in bytes that are to be kept: msgspec leaves room for half as many behind its own.
    Raises as `msgspec.json.encode`.
    """
    return bytes(memoryview(msgspec.json.encode(value)))


def decode_base64(text: str) -> bytes | None:
    """Return the bytes of a base64 text with padding; None for any other text."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether a JSON text has more than so many values, or numbers as long as those, without decoding it, which
    would cost too much; a part of the text's length is the only cost. The count may be too high by the number of lists
    and objects.
    """
    if len(text) <= most:  # each value has a byte
        return False
    if len(text) > 2 * _PREFIX and has_more_values(text[:_PREFIX], most):
        return True
    if _brackets(text) <= most and _digits(text) <= _DIGITS * most:
        return False
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * most:  # two for a text; a member's key is one, too
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return _brackets(outside) > most or _digits(outside) > _DIGITS * most


def _digits(text: bytes) -> int:
    return len(text) - len(text.translate(None, _ALL_DIGITS))


def _brackets(text: bytes) -> int:
    """Return an upper bound of the values; nearly exact for JSON without its texts."""
    return len(text) - len(text.translate(None, b",[{"))
