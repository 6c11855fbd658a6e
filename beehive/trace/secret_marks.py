"""Replaces single secret values by a mark: `redacted:` and a hash with a key (`beehive.trace.redact`)."""

import hashlib
import os
from typing import Final

from beehive.trace.secret_forms import without_forms
from beehive.trace.secrets import SHORTEST, KnownSecrets
from beehive.trace.substring_search import SubstringMatch, TooMuchWorkError

MARK: Final = "redacted:"


class SecretMarks:
    """The replacement of single values, and the values of `KnownSecrets` within a text. Thread-safe.

    Args:
        known: values that are secret in any place; hidden values are added.
        key: of the hash; None: drawn at random.
        hides_values: whether also what is no secret to Kubernetes is replaced, see `beehive.trace.redact`.
    """

    def __init__(self, known: KnownSecrets, key: bytes | None, *, hides_values: bool = False) -> None:
        self.known = known
        self.hides_values = hides_values
        self._key = key if key is not None else os.urandom(32)

    def mark(self, value: bytes) -> str:
        """Return the replacement of a value."""
        return MARK + hashlib.blake2b(value, key=self._key, digest_size=8).hexdigest()

    def hidden(self, value: str) -> str:
        """Return the replacement of a value that is secret by its place, and learn the value."""
        data = value.encode("utf-8", "surrogatepass")
        if value.startswith(MARK):
            return value
        self.known.learn(data)
        return self.mark(data)

    def holds_known(self, data: bytes) -> bool:
        """Return whether a JSON text may hold a known value, perhaps in escaped form."""
        return self.known.is_full or self.known.any_in(data) or (b"\\u" in data and len(self.known) > 0)

    def without_known(self, text: str) -> str:
        """Return the text with marks in the place of known values; if it cannot be searched, a mark for all of it."""
        if self.hides_values:
            text = without_forms(text)
        if len(text) < SHORTEST or not (len(self.known) or self.known.is_full):
            return text
        data, errors = _bytes_of(text)
        if self.known.is_full:
            return self.mark(data)
        try:
            found = self.known.find(data)
        except TooMuchWorkError:
            return self.mark(data)
        return self._replaced(data, found).decode("utf-8", errors) if found else text

    def _replaced(self, data: bytes, found: list[SubstringMatch]) -> bytes:
        pieces, end = [], 0
        for one in found:
            pieces += [data[end : one.begin], self.mark(one.of).encode()]
            end = one.end
        return b"".join((*pieces, data[end:]))


def _bytes_of(text: str) -> tuple[bytes, str]:
    """Return a text's bytes and the error handler to decode them: it may come from invalid UTF-8, or from JSON with an
    escaped lone surrogate.
    """
    try:
        return text.encode("utf-8", "surrogateescape"), "surrogateescape"
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass"), "surrogatepass"
