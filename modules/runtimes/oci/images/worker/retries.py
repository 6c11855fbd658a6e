"""The rules for repeating a request, and the delay before it."""

import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from beehive.http.dates import seconds_of_date

RETRIED: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that may pass."""
_LONGEST_WAIT: Final = 60.0
"""Seconds of `Retry-After` that are waited for."""


class RetryPolicy(NamedTuple):
    """Waits of a pull. Real time: sockets cannot wait in another."""

    attempts: int = 5
    first_delay: float = 0.5
    """Seconds before the second attempt; doubles."""
    stall_seconds: float = 60.0
    """Longest silence of a connection."""
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Seconds since the epoch, for a `Retry-After` that is a date."""
    jitter: Callable[[], float] = random.random

    def delay(self, attempt: int, retry_after: str) -> float | None:
        """Return the seconds before attempt number `attempt` (2, 3, …); None if the server asks for too long."""
        asked = seconds_of(retry_after, self.wall())
        if asked is not None:
            return asked if asked <= _LONGEST_WAIT else None
        return float(self.first_delay * 2 ** (attempt - 2) * (0.5 + self.jitter()))


def seconds_of(retry_after: str, wall: float) -> float | None:
    """Return the seconds of a `Retry-After` header, a number or a date, from `wall` (seconds since the epoch); None
    without one.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    date = seconds_of_date(text)
    return None if date is None else max(0.0, date - wall)
