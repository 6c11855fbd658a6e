"""The refusal of a body without a kind (apiserver's `transformDecodeError`)."""

from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.go_json import type_error

_SHOWN: Final = 30
"""Bytes of a body that a refusal shows."""
_LONGEST: Final = 4096
"""Bytes of a body that names no kind in a refusal."""
_TYPE_META: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)


def not_an_object(value: Any, kind: str) -> BadRequestError:
    """Return the error for a JSON value that is no object, where one of a kind is wanted."""
    return unrecognized(msgspec.json.encode(value), type_error(value, _TYPE_META), kind)


def unrecognized(body: bytes, why: str, kind: str = "") -> BadRequestError:
    """Return the error for a body without a kind, with the beginning of it.

    Args:
        body: the body.
        why: the error of `encoding/json`.
        kind: the expected kind; empty if it is not known.
    """
    return _unrecognized(body, f"couldn't get version/kind; json parse error: {why}", kind)


def without_kind(kind: str, version: str, body: bytes, *, is_read: bool) -> BadRequestError:
    """Return the error for a custom object that names no kind.

    Args:
        kind: the expected kind.
        version: its API version.
        body: the object.
        is_read: whether its fields are not validated, which is another decoder's work there.
    """
    missing = f"Object 'Kind' is missing in '{body[:_LONGEST].decode('utf-8', 'replace')}'"
    if is_read:
        of = version.rpartition("/")[2]
        return BadRequestError(f'{kind} in version "{of}" cannot be handled as a {kind}: {missing}')
    return _unrecognized(body, missing, kind)


def _unrecognized(body: bytes, why: str, kind: str) -> BadRequestError:
    begin = body[:_SHOWN]
    told = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    summary = f"{told} ..." if len(body) > _SHOWN else told or "<empty>"
    wanted = f" (must be of type {kind})" if kind else ""
    return BadRequestError(f"the object provided is unrecognized{wanted}: {why} ({summary})")
