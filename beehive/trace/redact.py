"""Removes secrets from data before it is recorded.

Each secret is replaced by `redacted:` and 16 hexadecimal digits of a hash, whose key is drawn for the process and never
leaves it: equal values stay equal, and guesses cannot be tested against the hash.

It replaces all values of Kubernetes secrets and of their annotations, fields that are tokens or passwords by their
name, and every value of `KnownSecrets` in any place. The form is kept where a reader of the body needs it: a base64
value becomes base64 of the hash's text, and pull credentials keep the user and lose the password. So a replay produces
from a redacted body the redacted result of the recorded run.

A text is replaced whole if it cannot be searched: if it is not JSON where JSON is expected, if the search would take
too long, and always once values of secrets were not learnt (`KnownSecrets.is_full`).
"""

import hashlib
import re
from typing import Any, Final

import msgspec

from beehive.decoding import json_decoder
from beehive.names import Operation
from beehive.resource import Side, type_of
from beehive.trace.repeated_names import repeats_names
from beehive.trace.secret_forms import Redact, redact_any, redact_credentials, redact_secret
from beehive.trace.secret_marks import SecretMarks
from beehive.trace.secrets import KnownSecrets

_SECRET_TYPES: Final = frozenset({"secret", "serviceaccounttoken"})
"""Resource types whose contents are secret in any form."""

_CONTENT: Final = b'"content"'

_QUOTE: Final = rb'\\*"'
_SUSPECT: Final = re.compile(
    b'"(?:ReqBody%(q)s|kind%(q)s\\s*:\\s*%(q)sSecret(?:List)?%(q)s|\\.?dockerconfig'
    b"|\\w*(?:token|password)%(q)s\\s*:\\s*%(q)s|auths%(q)s\\s*:"
    b"|[\\w-]*(?:authorization|cookie)%(q)s\\s*:\\s*\\[)" % {b"q": _QUOTE},
    re.IGNORECASE,
)
"""Cheap test whether a text, or a text in it, may hold a secret by its form."""

_LARGE: Final = 64 * 1024
"""Bytes above which a text without secrets is remembered: a pod of 2 MB is in each list of the runtime."""
_CLEAN: Final = 256
"""Texts without secrets that are remembered."""

_MAY_BE_TEXT: Final = (b'"', b'["')
"""Beginnings of contents that may be base64 of another JSON value, which the cheap test cannot see."""


class Redactor:
    """Replaces secrets in contents, frames and texts by hashes. Thread-safe.

    Args:
        known: values that are secret in any place; secrets that are found by their form are added to it.
        key: of the hash; only for tests.
    """

    def __init__(self, known: KnownSecrets | None = None, key: bytes | None = None) -> None:
        self.known = known if known is not None else KnownSecrets()
        self._marks = SecretMarks(self.known, key)
        self._clean: set[tuple[int, bytes]] = set()
        """Large texts without secrets, by the version of `known` and the hash of the text."""

    def mark(self, value: bytes) -> str:
        """Return the replacement of a value."""
        return self._marks.mark(value)

    def content(self, resource: str, operation: str, content: bytes) -> bytes:
        """Redact the JSON text of a message's content, given the message's resource and operation."""
        if operation != Operation.ERROR and self.is_secret(resource):
            return self.secret(content)
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
        if not (text.startswith(_MAY_BE_TEXT) or _SUSPECT.search(text) or self._marks.holds_known(text)):
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
        """Redact a frame of the link, JSON text; one that is not a message, or nested too deeply, is hidden whole."""
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
        whole = {**msgspec.json.decode(frame), "content": None}
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
            value = msgspec.json.decode(text)
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
