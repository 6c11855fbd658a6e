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
"""Bytes kept at most, texts of header and route included: a thousand messages of a megabyte would be more than the
whole agent may have."""


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
        self._letters: deque[tuple[DeadLetter, int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.counts: Counter[DropReason] = Counter()

    def add(self, letter: DeadLetter) -> None:
        """Keep a letter and count it; the oldest make room, so that a huge one may be kept alone or not at all."""
        size = _size(letter)
        with self._lock:
            self.counts[letter.reason] += 1
            self._letters.append((letter, size))
            self._bytes += size
            while len(self._letters) > self._capacity or self._bytes > self._capacity_bytes:
                self._bytes -= self._letters.popleft()[1]

    def __iter__(self) -> Iterator[DeadLetter]:
        with self._lock:
            return iter([letter for letter, _ in self._letters])

    def __len__(self) -> int:
        return len(self._letters)


def _size(letter: DeadLetter) -> int:
    """Bytes of its texts, and of an undecoded content; what is an object already belongs to whoever made it."""
    message = letter.message
    texts = [*msgspec.structs.astuple(message.header), *msgspec.structs.astuple(message.route)]
    size = sum([len(text) for text in texts if isinstance(text, str)]) + len(letter.module) + len(letter.detail)
    content = message.content
    return size + (len(content) if isinstance(content, (msgspec.Raw, bytes, str)) else 0)
