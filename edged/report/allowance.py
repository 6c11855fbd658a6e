"""How often something may be done: some times at once, and then once in a period (a token bucket)."""

from beehive import Clock


class Allowance:
    """See the module's docstring.

    Args:
        clock: time.
        most: times at once.
        period: seconds after which it may be done once more.
    """

    def __init__(self, clock: Clock, most: int, period: float) -> None:
        self._clock = clock
        self._most = most
        self._period = period
        self._left = float(most)
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Whether it may be done now; if so, it has been."""
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._at) / self._period)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
