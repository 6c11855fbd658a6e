"""Who may look: one-time tokens, and the keys of sessions that they are exchanged for."""

import hashlib
import secrets
import threading
from collections import Counter
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
_MOST_OF_A_USER: Final = 8
"""Sessions of a user that has signed in."""
_BYTES: Final = 32


class _Key(msgspec.Struct):
    """A session. Monotonic seconds."""

    began: float
    used: float
    credentials: object
    """The credentials of the user; None for the owner of the command."""
    user: str = ""


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
            return self._begun(now, None) if ends > now else ""

    def begin(self, credentials: object, user: str) -> str:
        """Return the key of a new session of a user, whose oldest one may end for it."""
        now = self._clock.monotonic()
        with self._lock:
            self._forget(now)
            mine = [key for key, each in self._keys.items() if each.user == user]
            for key in mine[: max(0, len(mine) + 1 - _MOST_OF_A_USER)]:
                del self._keys[key]
            return self._begun(now, credentials, user)

    def _begun(self, now: float, credentials: object, user: str = "") -> str:
        """Return the key of a new session. If there are too many, the oldest one of the user with the most ends: no few
        users keep others out, nor the owner of the command.
        """
        if len(self._keys) >= MOST_SESSIONS:
            most = Counter(each.user for each in self._keys.values()).most_common(1)[0][0]
            del self._keys[next(key for key, each in self._keys.items() if each.user == most)]
        key = secrets.token_urlsafe(_BYTES)
        self._keys[_hash(key)] = _Key(now, now, credentials, user)
        return key

    def is_valid(self, key: str, *, is_use: bool = True) -> bool:
        """Return whether a session has this key; that counts as its use, unless it is none."""
        return self._found(key, is_use=is_use) is not None

    def credentials(self, key: str, *, is_use: bool = True) -> object:
        """Return the credentials of a session's user, None without a session; see `is_valid`."""
        session = self._found(key, is_use=is_use)
        return session.credentials if session is not None else None

    def _found(self, key: str, *, is_use: bool) -> _Key | None:
        now = self._clock.monotonic()
        with self._lock:
            self._forget(now)
            session = self._keys.get(_hash(key))
            if session is not None and is_use:
                session.used = now
            return session

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
