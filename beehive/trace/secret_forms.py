"""Finds secrets in JSON values by their form: Kubernetes Secrets, pull credentials, KubeEdge's Applications, and fields
and headers by their names.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beehive.trace.repeated_names import repeats_names
from beehive.trace.secret_marks import MARK, SecretMarks

Redact = Callable[[SecretMarks, Any], Any]
"""Returns a JSON value without its secrets."""

_FIELDS: Final = frozenset(
    {
        "token",
        "password",
        "identitytoken",
        "registrytoken",
        "bearertoken",
        "accesstoken",
        "refreshtoken",
        "mqttpassword",
    }
)
"""Fields, in lower case and without underscores, whose text is a secret in any object."""

_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
"""Headers in lower case, whose values are credentials: lists of texts, in the requests that rules pass on."""

_DOCKER_KEYS: Final = frozenset({".dockerconfigjson", ".dockercfg"})

_PLAIN_ANSWERS: Final = frozenset({"OK", ""})
"""Contents of a secret's resource that are not secret."""

_BODIES: Final = frozenset({"Option", "ReqBody", "RespBody"})
_SECRET_PATHS: Final = ("/secrets/", "/serviceaccounts/")


def redact_any(marks: SecretMarks, value: Any) -> Any:
    """Redact any JSON value."""
    if isinstance(value, str):
        return _string(marks, value, redact_any)
    if isinstance(value, list):
        return [redact_any(marks, item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") in ("Secret", "SecretList") or _is_docker(value):
        return redact_secret(marks, value)
    if _is_application(value):
        return {key: marks.hidden(item) if key in _BODIES and item else item for key, item in value.items()}
    return {
        marks.without_known(key): (_everything if _is_secret(key, item) else redact_any)(marks, item)
        for key, item in value.items()
    }


def _is_secret(name: str, value: Any) -> bool:
    if isinstance(value, list):
        return name.lower() in _HEADERS
    return isinstance(value, str) and name.lower().replace("_", "") in _FIELDS


def redact_secret(marks: SecretMarks, value: Any) -> Any:
    """Redact a secret, a list of secrets, a token request, or another content of a secret's resource."""
    if isinstance(value, list):
        return [redact_secret(marks, item) for item in value]
    if isinstance(value, str):
        return _string(marks, value, redact_secret, hide=True)
    if not isinstance(value, dict):
        return value
    if _is_docker(value):
        return redact_credentials(marks, value)
    rest = redact_any(marks, {key: item for key, item in value.items() if key not in ("kind", *_HOW)})
    return {key: _HOW[key](marks, item) if key in _HOW else rest.get(key, item) for key, item in value.items()}


def _data(marks: SecretMarks, value: Any) -> Any:
    if not isinstance(value, dict):
        return _everything(marks, value)
    return {key: _datum(marks, key, item) for key, item in value.items()}


def _datum(marks: SecretMarks, key: str, value: Any) -> Any:
    """Redact one value of a secret's `data`, which is base64."""
    plain = _decoded(value) if isinstance(value, str) else None
    if plain is None:
        return _everything(marks, value)
    if key in _DOCKER_KEYS:
        try:
            return _encoded(msgspec.json.encode(redact_credentials(marks, msgspec.json.decode(plain))))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    if not plain or plain.startswith(MARK.encode()):
        return value
    marks.known.learn(plain)
    return _encoded(marks.mark(plain).encode())


def redact_credentials(marks: SecretMarks, value: Any) -> Any:
    """Redact pull credentials: all text but the names of users and servers."""
    if isinstance(value, list):
        return [redact_credentials(marks, item) for item in value]
    if isinstance(value, str):
        return marks.hidden(value) if value else value
    if not isinstance(value, dict):
        return value
    return {
        key: item if key == "username" else _auth(marks, item) if key == "auth" else redact_credentials(marks, item)
        for key, item in value.items()
    }


def _auth(marks: SecretMarks, value: Any) -> Any:
    """Redact the password in `auth`, which is base64 of user and password."""
    plain = _decoded(value) if isinstance(value, str) else None
    if not plain or b":" not in plain:
        return _everything(marks, value)
    user, _, password = plain.partition(b":")
    marks.known.learn(plain)
    if password.startswith(MARK.encode()):
        return value
    marks.known.learn(password)
    return _encoded(user + b":" + marks.mark(password).encode())


def _everything(marks: SecretMarks, value: Any) -> Any:
    """Redact all text in a JSON value."""
    if isinstance(value, str):
        return marks.hidden(value) if value else value
    if isinstance(value, list):
        return [_everything(marks, item) for item in value]
    if isinstance(value, dict):
        return {key: _everything(marks, item) for key, item in value.items()}
    return value


def _metadata(marks: SecretMarks, value: Any) -> Any:
    """Redact metadata, with all annotations: kubectl keeps the whole object, data included, in one of them."""
    if not isinstance(value, dict):
        return redact_any(marks, value)
    return {
        key: _everything(marks, item) if key == "annotations" else redact_any(marks, item)
        for key, item in value.items()
    }


def _string(marks: SecretMarks, value: str, how: Redact, *, hide: bool = False) -> str:
    """Redact a string, which may be the text of a JSON value, or base64 of it (a Go `[]byte`)."""
    for text, wrapped in ((value.encode("utf-8", "surrogatepass"), str), (_decoded(value), _encoded)):
        inner = None if text is None or text[:1] not in (b"{", b"[") else _json(text)
        if inner is not None and text is not None:
            redacted = how(marks, inner)
            if redacted == inner and not repeats_names(text):
                return value  # as it is: encoded again it would lose its white space, such as the last line's end
            again = msgspec.json.encode(redacted)
            return wrapped(again) if wrapped is _encoded else again.decode()
    if hide and value not in _PLAIN_ANSWERS:
        return marks.hidden(value) if value else value
    return marks.without_known(value)


def _is_application(value: dict[str, Any]) -> bool:
    """Return whether a value is KubeEdge's Application about a secret; its base64 bodies may be patches."""
    path = value.get("Key")
    return "ReqBody" in value and isinstance(path, str) and any(part in path for part in _SECRET_PATHS)


def _is_docker(value: dict[str, Any]) -> bool:
    return isinstance(value.get("auths"), dict)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _decoded(value: str) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


_HOW: Final[dict[str, Redact]] = {
    "data": _data,
    "stringData": _everything,
    "metadata": _metadata,
    "items": redact_secret,
}
"""How each part of a secret is redacted."""
