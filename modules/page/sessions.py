"""Who may look: one-time tokens, and the keys of sessions that they are exchanged for."""

import hashlib
import secrets
import threading
from typing import Final

import msgspec

from beehive.clock import Clock

TOKEN_SECONDS: Final = 60.0
"""Seconds that a one-time token can be exchanged."""
IDLE_SECONDS: Final = 3600.0
"""A session ends when nothing was asked with it for so long."""
LONGEST_SECONDS: Final = 12 * 3600.0
"""A session ends after this in any case."""
MOST_SESSIONS: Final = 64
_BYTES: Final = 32


class _Key(msgspec.Struct):
    """A session. Monotonic seconds."""

    began: float
    used: float


class Sessions:
    """One-time tokens and session keys; only their hashes are kept. Thread-safe.

    Args:
        clock: for their ends.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, float] = {}
        """The ends of the tokens, by their hashes."""
        self._keys: dict[str, _Key] = {}

    def new_token(self) -> str:
        """Return a token that can be exchanged once, for `TOKEN_SECONDS`."""
        token = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self._tokens[_hash(token)] = self._clock.monotonic() + TOKEN_SECONDS
        return token

    def exchange(self, token: str) -> str:
        """Return the key of a new session for a token; "" if it is unknown, used, or too old."""
        now = self._clock.monotonic()
        with self._lock:
            ends = self._tokens.pop(_hash(token), 0.0)
            self._forget(now)
            if ends <= now or len(self._keys) >= MOST_SESSIONS:
                return ""
            key = secrets.token_urlsafe(_BYTES)
            self._keys[_hash(key)] = _Key(now, now)
            return key

    def is_valid(self, key: str) -> bool:
        """Return whether a session has this key; that counts as its use."""
        now = self._clock.monotonic()
        with self._lock:
            self._forget(now)
            session = self._keys.get(_hash(key))
            if session is None:
                return False
            session.used = now
            return True

    def end(self, key: str) -> None:
        """End a session."""
        with self._lock:
            self._keys.pop(_hash(key), None)

    def _forget(self, now: float) -> None:
        self._tokens = {token: ends for token, ends in self._tokens.items() if ends > now}
        self._keys = {
            key: each
            for key, each in self._keys.items()
            if each.used + IDLE_SECONDS > now and each.began + LONGEST_SECONDS > now
        }


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
