"""Turns of streams that move few bytes: one byte at a time costs a thread as much as 32 KiB, and others wait for it."""

import threading
from typing import Final

SMALL_BYTES: Final = 512
"""A turn that moves fewer bytes counts."""
RATE: Final = 4000
"""Turns a second for all streams together; each takes about 0.1 ms."""
BURST: Final = 400
"""Turns that may be taken at a time."""
_INSTANT: Final = 1e-6
"""Seconds below which nobody waits: sums of times are not exact."""


class SmallTurns:
    """The turns of streams, in the order in which they ask. Thread-safe.

    A stream takes a turn, and waits before the next one as long as it is told. Meanwhile its bytes gather, so that it
    moves more in a turn. A stream alone has all turns; of several, each has as many as the others.

    Args:
        rate: turns a second.
        burst: turns that nobody waits for, after a while without any.
    """

    def __init__(self, rate: float = RATE, burst: int = BURST) -> None:
        self._rate = rate
        self._burst = burst
        self._lock = threading.Lock()
        self._next: float | None = None
        """Monotonic seconds at which all turns so far will be over."""

    def charge(self, size: int, now: float, turns: int = 1) -> float:
        """Count a turn of a stream, and return the seconds until it may take another one.

        Args:
            size: bytes that it has moved.
            now: monotonic seconds.
            turns: how many it counts for.
        """
        if size >= SMALL_BYTES * turns:
            return 0.0
        with self._lock:
            earliest = now - self._burst / self._rate
            self._next = max(earliest, earliest if self._next is None else self._next) + turns / self._rate
            left = self._next - now
        return left if left > _INSTANT else 0.0
