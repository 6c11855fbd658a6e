"""JSON to Kubernetes types and back.

Go's decoder takes `null` for any field and leaves it at its zero value; msgspec refuses it. As nulls are
rare, decoding first tries the direct way and only on a refusal drops the nulls and tries again, which also
yields the error to show when the type was really wrong.
"""

from typing import Any, TypeVar

import msgspec

from edged.errors import EdgedError

T = TypeVar("T")

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class DecodeError(EdgedError):
    """JSON that is not the Kubernetes object it should be; the text names the path of the wrong value."""


def decode(kind: type[T], raw: bytes | bytearray | memoryview | str | msgspec.Raw) -> T:
    """The object of type `kind` that the JSON text holds; unknown keys are ignored, nulls count as absent.

    Raises DecodeError with the path of the value at fault (`$.spec.containers[0].name`).
    """
    try:
        try:
            return _decoder(kind).decode(raw)
        except msgspec.ValidationError:
            return from_value(kind, msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"cannot read a {kind.__name__}", str(error), "the content is no JSON") from error


def from_value(kind: type[T], value: Any) -> T:
    """The object of type `kind` that an already decoded JSON value holds. Rules and errors as `decode`."""
    try:
        return msgspec.convert(_without_nulls(value), kind)
    except msgspec.ValidationError as error:
        raise DecodeError(f"cannot read a {kind.__name__}", str(error)) from error


def encode(value: Any) -> bytes:
    """The JSON text of an object, keys in Kubernetes' order, empty fields left out as Go does."""
    return msgspec.json.encode(value)


def to_value(value: Any) -> Any:
    """The object as plain dictionaries, lists and scalars, as its JSON text would decode."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
