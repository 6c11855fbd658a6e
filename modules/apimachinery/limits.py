"""Limits of one request and one object, so that no node occupies the only controller for long."""

from typing import Final

import msgspec

from beehive.decoding import has_more_values

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
    """Return whether JSON exceeds the limits of a request, without decoding it, which would cost too much."""
    return len(data) > REQUEST_BYTES or has_more_values(bytes(data), VALUES)
