"""The back pressure of the link: a limit on the bytes from the cloud that are in flight in this process."""

import threading
from collections import OrderedDict
from typing import Any, Final

import msgspec
import pykka

from beehive import Runtime

MOST_BYTES: Final = 2 * 1024 * 1024
"""Bytes that may be in flight; a single larger message may be alone."""
LONGEST_WAIT: Final = 0.5
"""Seconds that `enter` blocks at most."""
FORGET_AFTER: Final = 10.0
"""Seconds after which a message without an answer no longer counts: some messages get none."""


class _Entry(msgspec.Struct, frozen=True):
    size: int
    since: float


class InFlight:
    """A count of messages from their delivery to metamanager until its answer leaves. Thread-safe; one thread enters.

    When too many bytes are in flight, `enter` blocks the link's thread for a moment, so that further messages wait in
    the network. It blocks for half a second at most, because the same thread also writes and keeps the link alive.
    """

    def __init__(self, runtime: Runtime, most: int = MOST_BYTES) -> None:
        self._runtime = runtime
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._room: pykka.Future[Any] | None = None

    @property
    def bytes(self) -> int:
        """Bytes in flight now."""
        return self._bytes

    def enter(self, message_id: str, size: int) -> None:
        """Count a message, as soon as there is room or `LONGEST_WAIT` has passed."""
        until = self._runtime.clock.monotonic() + LONGEST_WAIT
        while (room := self._enter(message_id, size, until)) is not None:
            try:
                room.get(timeout=max(0.0, until - self._runtime.clock.monotonic()))
            except pykka.Timeout:
                continue

    def leave(self, message_id: str) -> None:
        """Count a message as answered; unknown ids have no effect. A blocked `enter` continues when half of the room is
        free: to wake it for each message would cost a thread switch each.
        """
        with self._lock:
            entry = self._entries.pop(message_id, None)
            if entry is None:
                return
            self._bytes -= entry.size
            room = None
            if self._bytes <= self._most // 2:
                room, self._room = self._room, None
        if room is not None:
            room.set(None)

    def _enter(self, message_id: str, size: int, until: float) -> pykka.Future[Any] | None:
        """Return None when the message was counted, else a future that is set when there may be room."""
        now = self._runtime.clock.monotonic()
        with self._lock:
            while self._entries and now - (oldest := next(iter(self._entries.values()))).since >= FORGET_AFTER:
                self._entries.popitem(last=False)
                self._bytes -= oldest.size
            if self._bytes and self._bytes + size > self._most and now < until:
                self._room = self._runtime.future()
                return self._room
            older = self._entries.pop(message_id, None)
            self._bytes += size - (older.size if older is not None else 0)
            self._entries[message_id] = _Entry(size, now)
            return None
