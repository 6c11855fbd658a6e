"""Messages that nobody could take, kept with the reason, so that "what was lost?" has an answer."""

from collections import Counter, deque
from collections.abc import Iterator

import msgspec

from beehive.delivery import DropReason
from beehive.message import Message

CAPACITY = 1000
"""Letters kept; older ones are only counted."""


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
    """The newest dead letters, and the count of all by reason."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._letters: deque[DeadLetter] = deque(maxlen=capacity)
        self.counts: Counter[DropReason] = Counter()

    def add(self, letter: DeadLetter) -> None:
        """Keep a letter and count it."""
        self.counts[letter.reason] += 1
        self._letters.append(letter)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(list(self._letters))

    def __len__(self) -> int:
        return len(self._letters)
