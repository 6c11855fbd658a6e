"""JSON to Kubernetes types and back.

Go's decoder takes `null` for any field as its zero value; msgspec refuses it. As nulls are rare, decoding first tries
the direct way; if that fails, it drops the nulls and tries again, which also yields the error for a wrong type.

Go's whole numbers have 64 bits at most, Python's any number of digits, and an error where a longer one meets a float.
"""

from typing import Any, Final, TypeVar

import msgspec

from modules.apimachinery.attempts import UnreadableError

T = TypeVar("T")

_INT64: Final = range(-(2**63), 2**63)
_ZEROES: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19
"""A number beyond 64 bits, once its digits are zeroes; most objects have nothing like it."""


class DecodeError(UnreadableError):
    """JSON that is not the expected Kubernetes object; the text names the path of the wrong value."""


def decode(kind: type[T], raw: bytes | bytearray | memoryview | str | msgspec.Raw) -> T:
    """Decode an object of type `kind` from JSON; unknown keys are ignored, nulls count as absent.

    Raises DecodeError with the path of the wrong value (`$.spec.containers[0].name`), also for a whole number beyond 64
    bits.
    """
    from beehive.decoding import decode_json  # noqa: PLC0415 - commands that read a configuration need no bus

    try:
        try:
            found = decode_json(raw, kind)
        except msgspec.ValidationError:
            return from_value(kind, decode_json(raw))
        text = raw.encode() if isinstance(raw, str) else bytes(raw)
        return from_value(kind, decode_json(raw)) if _LONG_NUMBER in text.translate(_ZEROES) else found
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"cannot read a {kind.__name__}", str(error), "the content is no JSON") from error


def from_value(kind: type[T], value: Any) -> T:
    """Convert a decoded JSON value to an object of type `kind`. Rules and errors as for `decode`."""
    from beehive.decoding import convert  # noqa: PLC0415 - as in `decode`

    try:
        return convert(_without_nulls(value), kind)
    except msgspec.ValidationError as error:
        raise DecodeError(f"cannot read a {kind.__name__}", str(error)) from error


def encode(value: Any) -> bytes:
    """Return the JSON of an object, with keys in Kubernetes' order and without empty fields, like Go."""
    return msgspec.json.encode(value)


def to_value(value: Any) -> Any:
    """Return the object as plain dictionaries, lists and scalars, the decoded form of its JSON."""
    from beehive.decoding import decode_json  # noqa: PLC0415 - as in `decode`

    return decode_json(msgspec.json.encode(value))


def _without_nulls(value: Any) -> Any:
    """Return a JSON value without nulls. Raises msgspec.ValidationError for a number beyond 64 bits."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    if isinstance(value, int) and value not in _INT64:
        raise msgspec.ValidationError("a whole number has more than 64 bits")
    return value
