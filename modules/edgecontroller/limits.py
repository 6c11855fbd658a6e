"""How much one request and one object may be, so that none takes the only controller there is from all other nodes."""

import re
from typing import Final

import msgspec

REQUEST_BYTES: Final = 3 * 1024 * 1024
"""What an API server reads of a request's body (MaxRequestBodyBytes)."""
OBJECT_BYTES: Final = 3 * REQUEST_BYTES
"""Of a stored object, which with what was last applied to it is twice as large as that; patches could otherwise make
one ever larger. (etcd takes 1.5 MiB.)
"""
VALUES: Final = 50_000
"""Values in a request. Each costs some ten microseconds to look at, merge and copy, so that the bytes alone say little;
a node's status with all its images has two thousand.
"""


_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def is_too_large(data: bytes | msgspec.Raw) -> bool:
    """Whether JSON is more than a request may be. Nothing is built of it: that is what would cost too much."""
    if len(data) > REQUEST_BYTES:
        return True
    text = bytes(data)
    return _values_in(text) > VALUES and _values_in(_STRING.sub(b"", text)) > VALUES


def _values_in(text: bytes) -> int:
    """How many there are at most, and, without its strings, nearly exactly."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")
