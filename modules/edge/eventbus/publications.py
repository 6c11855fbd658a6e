"""Messages that wait for the broker, or for its acknowledgement. Pure.

Of a device's results, documents and deltas, the newest of each topic is kept. Of all other messages, the oldest are
dropped when there is no room, and so are messages that have waited for too long: a command of yesterday must not open a
valve today. Messages that the broker has not acknowledged when the connection ends are published again.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

MOST: Final = 5000
"""Publications that wait: results and documents of a report from each of 1,000 devices together, and twice that."""

MOST_BYTES: Final = 4 * 1024 * 1024

MOST_AGE: Final = 3600.0
"""Seconds that a publication waits for the broker."""

WINDOW: Final = 100
"""Publications without an acknowledgement."""

_NEWEST: Final = ("/twin/update/delta", "/twin/update/document", "/twin/get/result", "/membership/get/result")
"""Ends of topics whose newest message has the whole state. Results of updates are answers, and all kept."""


class Drop(StrEnum):
    """Why a publication was dropped."""

    NO_ROOM = "no room"
    TOO_OLD = "too old"


class QueuedMessage(NamedTuple):
    """A message for the broker."""

    topic: str
    payload: bytes
    at: float = 0.0
    """When it was queued, in monotonic seconds."""
    done: Callable[[str], None] | None = None
    """Called when the broker has it, or with why it was dropped."""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.topic) + len(self.payload)


class Publications:
    """The queue of publications.

    Args:
        most: of publications that wait.
        most_bytes: of them together; a single larger one may be alone.
        most_age: seconds.
        dropped: counts publications that are dropped.
    """

    def __init__(
        self,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        most_age: float = MOST_AGE,
        dropped: Counter[Drop] | None = None,
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._most_age = most_age
        self._waiting: OrderedDict[object, QueuedMessage] = OrderedDict()
        self._flying: OrderedDict[int, QueuedMessage] = OrderedDict()
        self._serial = 0
        self.size = 0
        """Bytes that wait."""
        self._dropped = Counter() if dropped is None else dropped

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, one: QueuedMessage) -> None:
        """Queue a publication."""
        self._serial += 1
        key: object = one.topic if one.topic.endswith(_NEWEST) else self._serial
        older = self._waiting.pop(key, None)
        if older is not None and older.done is not None:
            older.done("a newer message of this topic has taken its place")
        self.size += one.size - (older.size if older is not None else 0)
        self._waiting[key] = one
        while len(self._waiting) > 1 and (len(self._waiting) > self._most or self.size > self._most_bytes):
            self._drop_oldest(Drop.NO_ROOM)

    def next(self, now: float = 0.0) -> tuple[int, QueuedMessage] | None:
        """Return the next publication with a number of its own; None while nothing waits or the window is full."""
        while self._waiting and next(iter(self._waiting.values())).at + self._most_age < now:
            self._drop_oldest(Drop.TOO_OLD)
        if not self._waiting or len(self._flying) >= WINDOW:
            return None
        _, one = self._waiting.popitem(last=False)
        self.size -= one.size
        self._serial += 1
        self._flying[self._serial] = one
        return self._serial, one

    def acknowledged(self, number: int) -> None:
        """Forget a publication that the broker has."""
        one = self._flying.pop(number, None)
        if one is not None and one.done is not None:
            one.done("")

    def connection_lost(self) -> None:
        """Queue unacknowledged messages again, before all others and in their order."""
        for number, one in reversed(self._flying.items()):
            self._waiting[number] = one
            self._waiting.move_to_end(number, last=False)
            self.size += one.size
        self._flying.clear()

    def _drop_oldest(self, why: Drop) -> None:
        _, one = self._waiting.popitem(last=False)
        self.size -= one.size
        self._dropped[why] += 1
        if one.done is not None:
            one.done(f"it was dropped: {why}")
