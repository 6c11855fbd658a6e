"""TokenBucket: limits how often an action is taken."""

from beehive import Clock


class TokenBucket:
    """Allows an action `most` times in a burst, and then once in each period.

    Args:
        clock: the monotonic time.
        most: number of actions in a burst.
        period: seconds after which one more action is allowed.
    """

    def __init__(self, clock: Clock, most: int, period: float) -> None:
        self._clock = clock
        self._most = most
        self._period = period
        self._left = float(most)
        self._at = clock.monotonic()

    def try_accept(self) -> bool:
        """Return whether the action is allowed now; if so, count it."""
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._at) / self._period)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
