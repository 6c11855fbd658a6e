"""What must not be seen in a trace, as far as the running process knows it.

Bodies of secrets are found by their form (`beehive.trace.redact`). But a secret goes on as something else: in the
environment and the arguments of a container, in what it prints before it ends, in an error. So every value that came
as a secret is learnt where it enters, and is found again wherever it turns up.

No value is forgotten that could still be of use to anybody: of what has been a secret once nobody knows where it still
stands. When there is no room for another one, tokens that have expired make it; when that is not enough, nothing is
learnt any more and `is_full` says so: then whoever records must leave out what he cannot judge.
"""

import base64
import logging
import threading
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_from_bytes, quote_plus

import msgspec

from beehive.trace.needles import Found, Needles

_log = logging.getLogger(__name__)

SHORTEST: Final = 6
"""Bytes below which a value is not looked for inside of other text: `true` and `root` would be found everywhere. Where
it stands as a secret's own value, or as the whole of a variable, it is redacted all the same."""

LONGEST: Final = 64 * 1024
"""Bytes above which a value is not looked for: it is a file and no password."""

CAPACITY: Final = 8192
"""Values that are remembered; a node of a hundred pods has some hundreds. They take about 2 KiB each."""

BYTES: Final = 16 * 1024 * 1024
"""Bytes that they have together at most."""

_EXPIRED: Final = 3600.0
"""Seconds after its expiry for which a token is remembered: clocks differ, and the last minute is yet to be written."""


class KnownSecrets:
    """See the module's docstring. Used by many threads.

    Args:
        now: the wall clock, seconds since the Unix epoch; without one no token is known to have expired.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._values: dict[bytes, None] = {}
        self._size = 0
        self._needles = Needles()
        self._short: set[bytes] = set()
        self.version = 0
        """Changes whenever something is learnt."""
        self.is_full = False
        """Whether a value could not be learnt: what is recorded from now on may have it anywhere."""

    def __len__(self) -> int:
        return len(self._values)

    def learn(self, value: bytes) -> None:
        """Remember a value; with it, its text without the white space around it."""
        for one in {value, value.strip()}:
            if SHORTEST <= len(one) <= LONGEST:
                if one not in self._values:
                    self._learn(one)
            elif one and len(one) < SHORTEST and one not in self._short:
                self._learn_short(one)

    def is_short(self, value: bytes) -> bool:
        """Whether it is a secret that is too short to be looked for inside of other text."""
        return value in self._short

    def any_in(self, text: bytes) -> bool:
        """Whether a known value, in any form, stands in a text."""
        return self._needles.any_in(text)

    def find(self, text: bytes) -> list[Found]:
        """Where known values stand in a text.

        Raises:
            TooMuchWorkError: it would take too long to say.
        """
        return self._needles.find(text)

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
                _add(self._needles, value)

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
        needles = Needles()
        for value in kept:
            _add(needles, value)
        self._values, self._size = dict.fromkeys(kept), sum(map(len, kept))
        self._needles = needles


def expiry_of(value: bytes) -> float:
    """When a JSON web token expires, seconds since the Unix epoch; 0 for what is none, or does not expire."""
    parts = value.split(b".")
    if len(parts) != 3:
        return 0.0
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + b"=="), type=_Claims)
    except (ValueError, msgspec.DecodeError):
        return 0.0
    return claims.exp


class _Claims(msgspec.Struct):
    exp: float = 0.0


def _add(needles: Needles, value: bytes) -> None:
    for form in _forms(value):
        needles.add(form, value)


def _forms(value: bytes) -> tuple[bytes, ...]:
    """As it is, as JSON and URLs write it, and in base64, padded or not."""
    escaped = msgspec.json.encode(value.decode("utf-8", "replace"))[1:-1]
    quoted = (quote_from_bytes(value, safe="").encode(), quote_from_bytes(value).encode(), quote_plus(value).encode())
    encoded = (base64.b64encode(value), base64.urlsafe_b64encode(value))
    return tuple(dict.fromkeys((value, escaped, *quoted, *encoded, *(one.rstrip(b"=") for one in encoded))))
