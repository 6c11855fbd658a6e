"""How much of what the cloud has sent may be on its way through this node: back pressure in bytes.

What is handed to metamanager counts until its answer leaves. When too much is under way the link reads no more for a
moment, so that what the cloud has more waits in the network and not in this process. No more than a moment, because
the thread that reads also writes and keeps the link alive.
"""

import threading
from collections import OrderedDict
from typing import Any, Final, NamedTuple, Protocol

import pykka

from beehive import Clock

MOST: Final = 2 * 1024 * 1024
"""Bytes that may be under way; one larger message may be alone."""

PATIENCE: Final = 0.5
"""Seconds for which a message waits at most."""

FORGOTTEN: Final = 10.0
"""Seconds after which a message without an answer counts no more: not each has one."""


class Runtime(Protocol):
    """What is needed of the bus's."""

    @property
    def clock(self) -> Clock:
        """Time."""

    def future(self) -> pykka.Future[Any]:
        """A new future."""


class _Entry(NamedTuple):
    size: int
    since: float


class InFlight:
    """See the module's docstring. Thread-safe; one thread enters."""

    def __init__(self, runtime: Runtime, most: int = MOST) -> None:
        self._runtime = runtime
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._room: pykka.Future[Any] | None = None

    @property
    def bytes(self) -> int:
        """Under way now."""
        return self._bytes

    def enter(self, message_id: str, size: int) -> None:
        """A message goes on its way, as soon as there is room for it or it has waited long enough."""
        until = self._runtime.clock.monotonic() + PATIENCE
        while (room := self._enter(message_id, size, until)) is not None:
            try:
                room.get(timeout=max(0.0, until - self._runtime.clock.monotonic()))
            except pykka.Timeout:
                continue

    def leave(self, message_id: str) -> None:
        """It was answered; without effect for what never entered. Who waits is woken when half of the room is free: to
        be woken for each message would cost a switch of threads for each.
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
        """None when it has entered, else what is set when there may be room."""
        now = self._runtime.clock.monotonic()
        with self._lock:
            self._forget(now)
            if self._bytes and self._bytes + size > self._most and now < until:
                self._room = self._runtime.future()
                return self._room
            older = self._entries.pop(message_id, None)
            self._bytes += size - (older.size if older is not None else 0)
            self._entries[message_id] = _Entry(size, now)
            return None

    def _forget(self, now: float) -> None:
        while self._entries:
            message_id, entry = next(iter(self._entries.items()))
            if now - entry.since < FORGOTTEN:
                return
            del self._entries[message_id]
            self._bytes -= entry.size
