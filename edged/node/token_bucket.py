"""TokenBucket: limits how often something is done."""

from beehive import Clock


class TokenBucket:
    """Allows something a number of times at once, and then once in a period.

    Args:
        clock: the monotonic time.
        most: number of times at once.
        period: seconds after which it is allowed once more.
    """

    def __init__(self, clock: Clock, most: int, period: float) -> None:
        self._clock = clock
        self._most = most
        self._period = period
        self._left = float(most)
        self._at = clock.monotonic()

    def try_accept(self) -> bool:
        """Return whether it is allowed now; if so, count it as done."""
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._at) / self._period)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
