"""Messages that nobody could take, kept with the reason, so that "what was lost?" has an answer."""

import threading
from collections import Counter, deque
from collections.abc import Iterator

import msgspec

from beehive.delivery import DropReason
from beehive.message import Message

CAPACITY = 1000
"""Letters kept; older ones are only counted."""

CAPACITY_BYTES = 4 * 1024 * 1024
"""Bytes of content kept at most: a thousand messages of a megabyte would be more than the whole agent may have."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One message that was not handled."""

    time: float
    """Wall clock, seconds since the epoch."""
    module: str
    """Where it was to go."""
    message: Message
    reason: DropReason
    detail: str = ""
    """Of a poison message: the exception's type and text."""


class DeadLetters:
    """The newest dead letters, and the count of all by reason. Any thread may add."""

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._letters: deque[DeadLetter] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.counts: Counter[DropReason] = Counter()

    def add(self, letter: DeadLetter) -> None:
        """Keep a letter and count it; the oldest make room, so that a huge one may be kept alone or not at all."""
        with self._lock:
            self.counts[letter.reason] += 1
            self._letters.append(letter)
            self._bytes += _size(letter)
            while len(self._letters) > self._capacity or self._bytes > self._capacity_bytes:
                self._bytes -= _size(self._letters.popleft())

    def __iter__(self) -> Iterator[DeadLetter]:
        with self._lock:
            return iter(list(self._letters))

    def __len__(self) -> int:
        return len(self._letters)


def _size(letter: DeadLetter) -> int:
    """Bytes of an undecoded content; what is an object already belongs to whoever made it."""
    content = letter.message.content
    return len(content) if isinstance(content, (msgspec.Raw, bytes, str)) else 0
