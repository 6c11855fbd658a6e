"""Dead letters: messages that were not handled, kept with the reason."""

import threading
from collections import Counter, deque
from collections.abc import Iterator

import msgspec

from beehive.delivery import DropReason
from beehive.message import Message

CAPACITY = 1000
"""Letters that are kept; older ones are only counted."""

CAPACITY_BYTES = 4 * 1024 * 1024
"""Bytes that the kept letters may have together, texts of header and route included: a thousand messages of a megabyte
would exceed the memory of the whole agent."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One message that was not handled."""

    time: float
    """Wall clock, seconds since the epoch."""
    module: str
    """Name of the module or group that the message was sent to."""
    message: Message
    reason: DropReason
    detail: str = ""
    """Type and text of the exception, for a poison message."""


class DeadLetters:
    """The newest dead letters, and the count of all by reason. Thread-safe."""

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._letters: deque[tuple[DeadLetter, int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.counts: Counter[DropReason] = Counter()

    def add(self, letter: DeadLetter) -> None:
        """Keep a letter and count it. The oldest letters make room; one above the limit of bytes is only counted."""
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
    """Return the bytes of its texts and of an undecoded content; a decoded content is not counted."""
    message = letter.message
    texts = [*msgspec.structs.astuple(message.header), *msgspec.structs.astuple(message.route)]
    size = sum([len(text) for text in texts if isinstance(text, str)]) + len(letter.module) + len(letter.detail)
    content = message.content
    return size + (len(content) if isinstance(content, (msgspec.Raw, bytes, str)) else 0)
