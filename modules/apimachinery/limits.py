"""Limits of one request and one object, so that no node occupies the only controller for long."""

import base64
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from beehive.decoding import decode_json, has_more_values

REQUEST_BYTES: Final = 3 * 1024 * 1024
"""Maximum of a request's body (the API server's MaxRequestBodyBytes)."""
OBJECT_BYTES: Final = 1536 * 1024
"""Maximum of a stored object as JSON, without the last-applied annotation, which doubles it (etcd's limit)."""
DATA_BYTES: Final = 1024 * 1024
"""Maximum of the data of a ConfigMap or Secret, decoded (MaxSecretSize)."""
ANNOTATION_BYTES: Final = 256 * 1024
"""Maximum of the names and values of all annotations (TotalAnnotationSizeLimitB)."""
VALUES: Final = 50_000
"""Maximum of JSON values in a request. Each takes some ten microseconds to check, merge and copy, so the bytes alone
say little; a node's status with all its images has two thousand.
"""


def is_too_large(data: bytes | msgspec.Raw) -> bool:
    """Return whether JSON exceeds the limits of a request, without decoding it, which would cost too much.

    A node may send JSON as a text, or as base64 in a text (a Go `[]byte`): its values are counted as well.
    """
    text = bytes(data)
    if len(text) > REQUEST_BYTES:
        return True
    return has_more_values(text, VALUES) or any(has_more_values(each, VALUES) for each in _within(text))


def _within(text: bytes) -> Iterator[bytes]:
    """Yield the JSON object or list that a text in JSON has, plain or as base64."""
    if not text.lstrip().startswith(b'"'):
        return
    with suppress(msgspec.DecodeError, ValueError):  # not JSON, UTF-8 or base64: nobody reads it
        inner = decode_json(text, str).encode().lstrip()
        yield inner if inner.startswith((b"{", b"[")) else base64.b64decode(inner, validate=True)
