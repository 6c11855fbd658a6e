"""Service account tokens in the store, so that a pod can restart without a cloud.

A token belongs to a service account, audiences, a lifetime and a pod. Each combination is one row with the pod's uid,
and is deleted with the pod (as in KubeEdge, under another key).
"""

import hashlib
from datetime import datetime
from typing import Final

import msgspec

from beehive import Message
from metamanager.rows import Row, row_of

_LAST_PART: Final = 0.2
_DEFAULT_LIFE: Final = 3600


class _BoundObject(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _BoundObject | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None


class _TokenRequest(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | None = None


def token_key(request: Message) -> str:
    """Return the row's key: the resource and a digest of the TokenRequest's spec."""
    spec = _decode(request.content_bytes()).spec
    return f"{request.route.resource}/{hashlib.sha256(msgspec.json.encode(spec)).hexdigest()[:32]}"


def token_row(request: Message, value: bytes, now_ms: int) -> Row | None:
    """Return the row for the cloud's answer to a TokenRequest; None if it has no token."""
    status = _decode(value).status
    if status is None or not status.token:
        return None
    bound = _decode(request.content_bytes()).spec.bound_object_ref
    row = row_of(request.route.resource, value, now_ms)
    return msgspec.structs.replace(row, key=token_key(request), uid=bound.uid if bound else "", resource_version=0)


def is_good(value: str, now: float) -> bool:
    """Return whether a stored token is still valid at a Unix time."""
    status = _decode(value.encode()).status
    if status is None or not status.expiration_timestamp:
        return False
    try:
        return datetime.fromisoformat(status.expiration_timestamp).timestamp() > now
    except ValueError:
        return False


def is_fresh(value: str, now: float) -> bool:
    """Return whether more than a fifth of a stored token's life is left; a kubelet renews it after that."""
    request = _decode(value.encode())
    return is_good(value, now + _LAST_PART * (request.spec.expiration_seconds or _DEFAULT_LIFE))


def _decode(content: bytes) -> _TokenRequest:
    try:
        return msgspec.json.decode(content, type=_TokenRequest)
    except (msgspec.DecodeError, UnicodeError):
        return _TokenRequest()
