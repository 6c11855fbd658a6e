"""The values of secrets that the process knows, which must not appear in a trace."""

import base64
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote_from_bytes, quote_plus

import msgspec

from beehive.decoding import decode_json
from beehive.patterns import pattern
from beehive.trace.substring_search import SubstringMatch, SubstringSearch

_log = logging.getLogger(__name__)

SHORTEST: Final = 6
"""Bytes below which a value is not searched for in other text: `true` and `root` would be found everywhere. As a
secret's own value, or as the whole value of a variable, it is redacted nevertheless."""

LONGEST: Final = 64 * 1024
"""Bytes above which a value is not searched for: it is a file and not a password."""

CAPACITY: Final = 8192
"""Values that are remembered; a node of a hundred pods has some hundreds. They take about 5 KiB each."""

BYTES: Final = 16 * 1024 * 1024
"""Bytes that the values may have together."""

_LOWER: Final = pattern("%[0-9A-F]{2}")
"""Texts that URLs may have in small letters, too."""

_EXPIRED: Final = 3600.0
"""Seconds during which an expired token is remembered: clocks differ, and the last minute is yet to be written."""


class KnownSecrets:
    """The values of secrets that the process has seen, and the search for them in other text. Thread-safe.

    Secrets in their own objects are found by their form (`beehive.trace.redact`). Their values also appear elsewhere:
    in the environment and the arguments of a container, in its output, in errors. So each value is learnt where it
    enters the process, and is searched for everywhere.

    Values are not forgotten, since a copy may be anywhere. Only expired tokens make room for new values; without room,
    no more values are learnt and `is_full` is True: recorders then leave out all contents.

    Args:
        now: the wall clock, in seconds since the Unix epoch; without it no token counts as expired.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._values: dict[bytes, None] = {}
        self._size = 0
        self._search = SubstringSearch()
        self._short: set[bytes] = set()
        self.version = 0
        """Changes whenever a value is learnt."""
        self.is_full = False
        """Whether a value could not be learnt, so that any content may hold it."""

    def __len__(self) -> int:
        return len(self._values)

    def learn(self, value: bytes) -> None:
        """Remember a value, and the value without surrounding white space."""
        for one in {value, value.strip()}:
            if SHORTEST <= len(one) <= LONGEST:
                if one not in self._values:
                    self._learn(one)
            elif one and len(one) < SHORTEST and one not in self._short:
                self._learn_short(one)

    def is_short(self, value: bytes) -> bool:
        """Return whether a value is a secret that is too short to be searched for in other text."""
        return value in self._short

    def any_in(self, text: bytes) -> bool:
        """Return whether a text contains a known value in any encoding."""
        return self._search.any_in(text)

    def find(self, text: bytes) -> list[SubstringMatch]:
        """Return the places of known values in a text.

        Raises:
            TooMuchWorkError: the search would take too long.
        """
        return self._search.find(text)

    def _learn(self, value: bytes) -> None:
        with self._lock:
            if self._has_no_room(value):
                self._forget_expired()
            if self._has_no_room(value):
                self._give_up()
                return
            if value not in self._values:
                self._values[value] = None
                self.version += 1
                self._size += len(value)
                _add(self._search, value)

    def _learn_short(self, value: bytes) -> None:
        with self._lock:
            if len(self._short) >= CAPACITY:
                self._give_up()
            else:
                self._short.add(value)
                self.version += 1

    def _has_no_room(self, value: bytes) -> bool:
        return len(self._values) >= CAPACITY or self._size + len(value) > BYTES

    def _give_up(self) -> None:
        if not self.is_full:
            self.is_full = True
            self.version += 1
            _log.error(
                "more than %d values of secrets: traces leave out all contents until the process is started again",
                len(self._values),
            )

    def _forget_expired(self) -> None:
        if self._now is None:
            return
        oldest = self._now() - _EXPIRED
        kept = [value for value in self._values if not 0.0 < expiry_of(value) < oldest]
        if len(kept) == len(self._values):
            return
        search = SubstringSearch()
        for value in kept:
            _add(search, value)
        self._values, self._size = dict.fromkeys(kept), sum(map(len, kept))
        self._search = search


def expiry_of(value: bytes) -> float:
    """Return the expiry of a JSON web token, in seconds since the Unix epoch; 0 for other values, or without expiry."""
    parts = value.split(b".")
    if len(parts) != 3:
        return 0.0
    try:
        claims = decode_json(base64.urlsafe_b64decode(parts[1] + b"=="), _Claims)
    except (ValueError, msgspec.DecodeError):
        return 0.0
    return claims.exp


class _Claims(msgspec.Struct):
    exp: float = 0.0


def _add(search: SubstringSearch, value: bytes) -> None:
    for form in dict.fromkeys(_forms(value)):
        search.add(form, value)


def _forms(value: bytes) -> Iterator[bytes]:
    """Yield a value in its encodings: plain, as in JSON (of Go and Python), in URLs, HTML, Go's and Python's quotes,
    hexadecimal, and within base64 of a longer text.
    """
    text = value.decode("utf-8", "replace")
    escaped = msgspec.json.encode(text)[1:-1]
    yield value
    yield escaped
    yield re.sub(rb"[<>&]", lambda found: b"\\u%04x" % found[0][0], escaped)
    yield json.dumps(text)[1:-1].encode()
    yield repr(text)[1:-1].encode("utf-8", "surrogatepass")
    for quoted in (quote_from_bytes(value, safe=""), quote_from_bytes(value), quote_plus(value)):
        yield quoted.encode()
        yield _LOWER.sub(lambda found: found[0].lower(), quoted).encode()
    plain = value.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;")
    yield plain
    yield plain.replace(b'"', b"&#34;").replace(b"'", b"&#39;")
    yield plain.replace(b'"', b"&quot;").replace(b"'", b"&#x27;")
    yield plain.replace(b'"', b"&quot;").replace(b"'", b"&#39;")
    yield value.hex().encode()
    yield value.hex().upper().encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(value)
        yield encode(value).rstrip(b"=")
        for before in range(3):
            yield _within_base64(encode, value, before)


def _within_base64(encode: Callable[[bytes], bytes], value: bytes, before: int) -> bytes:
    """Return the characters of base64 that a value alone decides, `before` bytes after the start of a group."""
    whole = encode(b"\0" * before + value)
    return whole[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6]
