"""Service account tokens in the store, so that a pod can restart without a cloud.

A token belongs to a service account, audiences, a lifetime and a pod. Each combination is one row with the pod's uid
under KubeEdge's key, and is deleted with the pod. So a node that changes between the two agents keeps its tokens.
"""

import hashlib
from datetime import datetime
from typing import Final

import msgspec

from beehive import Message
from beehive.decoding import decode_json
from metamanager.rows import Row, row_of

_LAST_PART: Final = 0.2
_LONGEST_USE: Final = 24 * 3600.0
_DEFAULT_LIFE: Final = 3600
_LONGEST_KEY: Final = 512


class _BoundObject(msgspec.Struct, rename={"api_version": "apiVersion"}):
    kind: str = ""
    api_version: str = ""
    name: str = ""
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
    """Return the row's key, as KubeEdge makes it: five values in Go's notation, with slashes between them.

        "default"/"shop"/[]string(nil)/3607/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"web", UID:"u1"}

    Where names are so long that another database than SQLite refuses the key, it is a digest.
    """
    resource = request.subject
    spec = _decode(request.content_bytes()).spec
    bound = spec.bound_object_ref or _BoundObject()
    audiences = f"{{{', '.join(map(_quoted, spec.audiences))}}}" if spec.audiences else "(nil)"
    fields = {"Kind": bound.kind, "APIVersion": bound.api_version, "Name": bound.name, "UID": bound.uid}
    reference = ", ".join(f"{field}:{_quoted(value)}" for field, value in fields.items())
    parts = (
        _quoted(resource.name),
        _quoted(resource.namespace),
        f"[]string{audiences}",
        str(spec.expiration_seconds or 0),
        f"v1.BoundObjectReference{{{reference}}}",
    )
    key = "/".join(parts)
    return key if len(key) <= _LONGEST_KEY else f"{request.route.resource}/{hashlib.sha256(key.encode()).hexdigest()}"


def token_row(request: Message, value: bytes, now_ms: int) -> Row | None:
    """Return the row for the cloud's answer to a TokenRequest; None if it has no token."""
    status = _decode(value).status
    if status is None or not status.token:
        return None
    bound = _decode(request.content_bytes()).spec.bound_object_ref
    row = row_of(request.route.resource, value, now_ms)
    return msgspec.structs.replace(row, key=token_key(request), uid=bound.uid if bound else "", resource_version=0)


def bound_uid(value: str) -> str:
    """Return the uid of the pod that a stored token belongs to; empty without one."""
    bound = _decode(value.encode()).spec.bound_object_ref
    return bound.uid if bound else ""


def expires_at(value: str) -> float | None:
    """Return the Unix time until which a stored token is valid; None if it does not say."""
    status = _decode(value.encode()).status
    if status is None or not status.expiration_timestamp:
        return None
    try:
        return datetime.fromisoformat(status.expiration_timestamp).timestamp()
    except ValueError:
        return None


def is_fresh(value: str, now: float) -> bool:
    """Return whether more than a fifth of a stored token's life is left and it is less than a day old. A kubelet renews
    it after that.
    """
    end, life = expires_at(value), _decode(value.encode()).spec.expiration_seconds or _DEFAULT_LIFE
    return end is not None and now < end - max(_LAST_PART * life, life - _LONGEST_USE)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _decode(content: bytes) -> _TokenRequest:
    try:
        return decode_json(content, _TokenRequest)
    except (msgspec.DecodeError, UnicodeError):
        return _TokenRequest()
