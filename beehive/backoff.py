"""Exponential back-off with full jitter, the one retry rule of the whole program."""

import random


def doubled(first: float, failures: int, limit: float) -> float:
    """Return a delay in seconds that begins with `first` and doubles with each failure, up to `limit`."""
    return min(limit, first * 2.0 ** min(failures, 60))


class Backoff:
    """The delays between the tries of one operation that keeps failing.

    Full jitter (a uniform draw between zero and the ceiling) spreads a crowd of nodes that lost the same cloud; see
    "Exponential Backoff and Jitter" of the AWS architecture blog for a comparison with other kinds of jitter.

    Args:
        base: ceiling of the first delay, in seconds.
        limit: ceiling that is never passed, in seconds.
        least: seconds that are added to each draw.
    """

    def __init__(self, base: float, limit: float, least: float = 0.0) -> None:
        self._base = base
        self._limit = limit
        self._least = least
        self.failures = 0
        """Failures since the last `reset`."""

    def ceiling(self) -> float:
        """Upper bound of the next draw, in seconds."""
        return doubled(self._base, self.failures, self._limit)

    def next(self, source: random.Random) -> float:
        """Count a failure and draw the delay before the next try, in seconds."""
        ceiling = self.ceiling()
        self.failures += 1
        return self._least + source.uniform(0, ceiling)

    def reset(self) -> None:
        """Forget the failures."""
        self.failures = 0
