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
"""Maximum of JSON values in a request. Each takes some microseconds to check, merge and copy, so the bytes alone say
little.
"""
NODE_VALUES: Final = 25_000
"""Maximum of JSON values in a message of a node; other nodes' messages wait for it. A node's status with 50
images has 850, with 1,000 images 5,600; a pod's with 20 containers 1,800, with 256 containers of ten mounts 22,600; the
twin of a device with 1,000 properties 18,000.
"""
_VALUE_BYTES: Final = 64
_MEMBER_BYTES: Final = 160
"""Bytes of memory for each JSON value and for each JSON object in addition to its text."""
NODE_LIMIT: Final = f"a node's message has at most {REQUEST_BYTES} bytes and {NODE_VALUES} values: send it in parts"
"""The answer to a node whose message is larger."""


def is_too_large(data: bytes | msgspec.Raw, values: int = VALUES) -> bool:
    """Return whether JSON exceeds the limits of a request, without decoding it, which would cost too much.

    A node may send JSON as a text, or as base64 in a text (a Go `[]byte`): its values are counted as well.
    """
    text = bytes(data)
    if len(text) <= values:  # each has a byte
        return False
    if len(text) > REQUEST_BYTES:
        return True
    return has_more_values(text, values) or any(has_more_values(each, values) for each in _within(text))


def memory_of(text: bytes) -> int:
    """Return about how many bytes of memory the decoded values of a JSON text take."""
    values = len(text) - len(text.translate(None, b",["))
    return len(text) + _VALUE_BYTES * values + _MEMBER_BYTES * text.count(b"{")


def _within(text: bytes) -> Iterator[bytes]:
    """Yield the JSON object or list that a text in JSON has, plain or as base64."""
    if not text.lstrip().startswith(b'"'):
        return
    with suppress(msgspec.DecodeError, ValueError):  # not JSON, UTF-8 or base64: nobody reads it
        inner = decode_json(text, str).encode().lstrip()
        yield inner if inner.startswith((b"{", b"[")) else base64.b64decode(inner, validate=True)
