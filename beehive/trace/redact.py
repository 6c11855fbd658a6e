"""Removes secrets from data before it is recorded.

Each secret is replaced by `redacted:` and 16 hexadecimal digits of a hash, whose key is drawn for the process and never
leaves it: equal values stay equal, and guesses cannot be tested against the hash.

It replaces all values of Kubernetes secrets and of their annotations, fields that are tokens or passwords by their
name, and every value of `KnownSecrets` in any place. The form is kept where a reader of the body needs it: a base64
value becomes base64 of the hash's text, and pull credentials keep the user and lose the password. So a replay produces
from a redacted body the redacted result of the recorded run.

What leaves the machine for strangers, a support bundle, has no values of variables, headers, annotations and ConfigMaps
either, and nothing that is a secret by its form (`beehive.trace.secret_forms`): they often have credentials that
Kubernetes does not know.

A text is replaced whole if it cannot be searched: if it is not JSON where JSON is expected, if the search would take
too long, and always once values of secrets were not learnt (`KnownSecrets.is_full`).
"""

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beehive.decoding import decode_base64, decode_json, json_decoder
from beehive.names import Operation
from beehive.nesting import read_json
from beehive.patterns import pattern
from beehive.resource import Side, type_of
from beehive.trace.secret_marks import MARK, SecretMarks
from beehive.trace.secrets import KnownSecrets

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

_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "x-access-token"}
)
"""Headers in lower case, whose values are credentials: lists of texts in the requests that rules pass on, pairs of
`name` and `value` in probes and hooks.
"""
_VALUES: Final = {"env": "value", "envs": "value", "httpHeaders": "value", "http_headers": "value"}
"""Fields of pods, and of the runtime's calls, whose entries have values that no form shows to be secret."""
_CONFIG_MAP: Final = "configmap"
_OWN: Final = (".kubernetes.io", ".k8s.io", ".kubeedge.io", ".edgecore.io")
"""Domains of the annotations that no user makes up."""
_OF_RUNTIME: Final = "io.kubernetes."
"""Beginning of those that a kubelet gives to the runtime."""
_MANIFEST: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation with a whole object, values of variables included."""

_DOCKER_KEYS: Final = frozenset({".dockerconfigjson", ".dockercfg"})

_PLAIN_ANSWERS: Final = frozenset({"OK", ""})
"""Contents of a secret's resource that are not secret."""

_BODIES: Final = frozenset({"Option", "ReqBody", "RespBody"})
_SECRET_PATHS: Final = ("/secrets/", "/serviceaccounts/")

_SECRET_TYPES: Final = frozenset({"secret", "serviceaccounttoken"})
"""Resource types whose contents are secret in any form."""
_CONTENT: Final = b'"content"'
_QUOTE: Final = rb'\\*"'
_SUSPECT: Final = pattern(
    b'"(?:ReqBody%(q)s|kind%(q)s\\s*:\\s*%(q)sSecret(?:List)?%(q)s|\\.?dockerconfig'
    b"|\\w*(?:token|password)%(q)s\\s*:\\s*%(q)s|auths%(q)s\\s*:"
    b"|[\\w-]*(?:authorization|cookie)%(q)s\\s*:\\s*\\["
    b"|name%(q)s\\s*:\\s*%(q)s(?:[\\w-]*authorization|[\\w-]*cookie|x-api-key|x-auth-token|x-access-token)%(q)s)"
    % {b"q": _QUOTE},
    re.IGNORECASE,
)
"""Cheap test whether a text, or a text in it, may hold a secret by its form."""
_LARGE: Final = 64 * 1024
"""Bytes above which a text without secrets is remembered: a pod of 2 MB is in each list of the runtime."""
_CLEAN: Final = 256
"""Texts without secrets that are remembered."""
_MAY_BE_TEXT: Final = (b'"', b'["')
"""Beginnings of contents that may be base64 of another JSON value, which the cheap test cannot see."""


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
    if _is_header(value):
        return {key: marks.hidden(item) if key == "value" and item else item for key, item in value.items()}
    if marks.hides_values and value.get("kind") in ("ConfigMap", "ConfigMapList"):
        return _config_map(marks, value)
    if _is_application(value):
        return {key: marks.hidden(item) if key in _BODIES and item else item for key, item in value.items()}
    return {
        marks.without_known(key): (_everything if _is_secret(key, item) else _how(marks, key))(marks, item)
        for key, item in value.items()
    }


def _how(marks: SecretMarks, key: str) -> Redact:
    if marks.hides_values and key in _VALUES:
        return _values
    return _annotations if marks.hides_values and key == "annotations" else redact_any


def _annotations(marks: SecretMarks, value: Any) -> Any:
    """Redact annotations but those of Kubernetes, KubeEdge and edgecore, by which a node decides."""
    if not isinstance(value, dict):
        return _unlearnt(marks, value)
    return {key: item if _is_own(key) else _unlearnt(marks, item) for key, item in value.items()}


def _is_own(annotation: str) -> bool:
    domain, _, name = annotation.partition("/")
    if not name:
        return annotation.startswith(_OF_RUNTIME)
    return annotation != _MANIFEST and f".{domain}".endswith(_OWN)


def _values(marks: SecretMarks, value: Any) -> Any:
    """Redact the values of variables or headers; of an entry that is none, all."""
    if isinstance(value, list):
        return [_values(marks, item) for item in value]
    if not isinstance(value, dict):
        return _unlearnt(marks, value)
    return {key: (_unlearnt if key == "value" else redact_any)(marks, item) for key, item in value.items()}


def _unlearnt(marks: SecretMarks, value: Any) -> Any:
    """Redact all text in a JSON value, and not elsewhere: a node's name is the value of some variable."""
    if isinstance(value, str):
        return value if not value or value.startswith(MARK) else marks.mark(value.encode(errors="surrogatepass"))
    if isinstance(value, list):
        return [_unlearnt(marks, item) for item in value]
    if isinstance(value, dict):
        return {key: _unlearnt(marks, item) for key, item in value.items()}
    return value


def _config_map(marks: SecretMarks, value: Any) -> Any:
    """Redact a ConfigMap, or a list of them."""
    if isinstance(value, list):
        return [_config_map(marks, item) for item in value]
    if not isinstance(value, dict):
        return redact_any(marks, value)
    how: dict[str, Redact] = {"data": _unlearnt, "binaryData": _unlearnt, "items": _config_map}
    rest = redact_any(marks, {key: item for key, item in value.items() if key not in ("kind", *how)})
    return {key: how[key](marks, item) if key in how else rest.get(key, item) for key, item in value.items()}


def _is_header(value: dict[str, Any]) -> bool:
    """Return whether a value is a header of a probe or hook that is a credential."""
    name = value.get("name")
    return isinstance(value.get("value"), str) and isinstance(name, str) and name.lower() in _HEADERS


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
    plain = decode_base64(value) if isinstance(value, str) else None
    if plain is None:
        return _everything(marks, value)
    if key in _DOCKER_KEYS:
        try:
            return _encoded(msgspec.json.encode(redact_credentials(marks, decode_json(plain))))
        except (msgspec.DecodeError, UnicodeError):
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
    plain = decode_base64(value) if isinstance(value, str) else None
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
    for text, wrapped in ((value.encode("utf-8", "surrogatepass"), str), (decode_base64(value), _encoded)):
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
        return decode_json(text)
    except (msgspec.DecodeError, UnicodeError):
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


class Redactor:
    """A redactor that replaces secrets in contents, frames and texts by hashes. Thread-safe.

    Args:
        known: values that are secret in any place; secrets that are found by their form are added to it.
        key: of the hash; only for tests.
        hides_values: for strangers.
    """

    def __init__(
        self, known: KnownSecrets | None = None, key: bytes | None = None, *, hides_values: bool = False
    ) -> None:
        self.known = known if known is not None else KnownSecrets()
        self._marks = SecretMarks(self.known, key, hides_values=hides_values)
        self._clean: set[tuple[int, bytes]] = set()
        """Large texts without secrets, by the version of `known` and the hash of the text."""

    def mark(self, value: bytes) -> str:
        """Return the replacement of a value."""
        return self._marks.mark(value)

    def content(self, resource: str, operation: str, content: bytes) -> bytes:
        """Redact the JSON text of a message's content, given the message's resource and operation."""
        if operation != Operation.ERROR and self.is_secret(resource):
            return self.secret(content)
        kinds = type_of(resource, Side.EDGE), type_of(resource, Side.CLOUD)
        if self._marks.hides_values and operation != Operation.ERROR and _CONFIG_MAP in kinds:
            return self._walked(content, _config_map)
        return self.json(content)

    def is_secret(self, resource: str) -> bool:
        """Return whether the content of a resource is secret in any form."""
        return type_of(resource, Side.EDGE) in _SECRET_TYPES or type_of(resource, Side.CLOUD) in _SECRET_TYPES

    def secret(self, text: bytes) -> bytes:
        """Redact JSON that is a secret, a list of secrets, or a token."""
        return self._walked(text, redact_secret)

    def json(self, text: bytes) -> bytes:
        """Redact JSON that may hold secrets."""
        return text if self._is_clean(text) else self._json(text)

    def _is_clean(self, text: bytes) -> bool:
        """Return whether a large text has no secrets, by the values that are known now."""
        if len(text) < _LARGE:
            return False
        key = self.known.version, hashlib.blake2b(text, digest_size=16).digest()
        if key in self._clean:
            return True
        clean = self._json(text) is text
        if clean:
            if len(self._clean) >= _CLEAN:
                self._clean.clear()
            self._clean.add(key)
        return clean

    def _json(self, text: bytes) -> bytes:
        if not (
            self._marks.hides_values
            or text.startswith(_MAY_BE_TEXT)
            or _SUSPECT.search(text)
            or self._marks.holds_known(text)
        ):
            return text
        return self._walked(text, redact_any)

    def text(self, text: str) -> str:
        """Redact text that is not JSON, such as an error's."""
        return self._marks.without_known(text)

    def value(self, text: str) -> str:
        """Redact a whole value, such as a variable's, which is compared with short secrets too."""
        data = text.encode("utf-8", "surrogateescape")
        return self.mark(data) if self.known.is_short(data) else self.text(text)

    def credentials(self, value: Any) -> Any:
        """Redact the credentials of a registry, as a JSON value."""
        return redact_credentials(self._marks, value)

    def frame(self, frame: bytes) -> bytes:
        """Redact a frame of the link, JSON text; a frame that is no message, or nested too deeply, is hidden whole."""
        try:
            return self._frame(frame)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._whole(frame)

    def _frame(self, frame: bytes) -> bytes:
        envelope = _envelope.decode(frame)
        content = bytes(envelope.content)
        route = envelope.route
        redacted = self.content(route.resource, route.operation, content) if content else content
        is_once = frame.count(_CONTENT) == 1 or not repeats_names(frame)
        if redacted == content and is_once and not self._marks.holds_known(frame.replace(content, b"", 1)):
            return frame
        whole = {**decode_json(frame), "content": None}
        if not self.known.is_full:
            whole = redact_any(self._marks, whole)
        return msgspec.json.encode({**whole, "content": msgspec.Raw(redacted or b"null")})

    def learn(self, text: bytes) -> None:
        """Learn the values of secrets in a JSON text, for later records."""
        self.secret(text)

    def _walked(self, text: bytes, how: Redact) -> bytes:
        """Apply `how` to JSON text; text that is not JSON, or is nested too deeply, is replaced whole."""
        if self.known.is_full:
            return self._whole(text)
        try:
            value = decode_json(text)
            redacted = how(self._marks, value)
            return text if redacted == value and not repeats_names(text) else msgspec.json.encode(redacted)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._whole(text)

    def _whole(self, text: bytes) -> bytes:
        return msgspec.json.encode(self.mark(text))


class _Route(msgspec.Struct):
    operation: str = ""
    resource: str = ""


class _Envelope(msgspec.Struct):
    route: _Route = msgspec.field(default_factory=_Route)
    content: msgspec.Raw = msgspec.Raw()


_envelope = json_decoder(_Envelope)


class _RepeatedNameError(ValueError):
    pass


def repeats_names(text: bytes) -> bool:
    """Return whether an object in a JSON text has a name twice, or the text cannot be read."""
    try:
        read_json(text, object_pairs_hook=_checked)
    except ValueError:
        return True
    return False


def _checked(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedNameError
