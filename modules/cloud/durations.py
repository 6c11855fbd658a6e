"""A histogram of durations, for metrics."""

from bisect import bisect_left
from itertools import accumulate
from typing import Final

BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Upper bounds of the buckets, in seconds."""


class Durations:
    """Numbers of durations by bucket. One thread writes; any may read, and then finds all but perhaps the newest."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0
        """The sum of the durations, in seconds."""

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, in the form of `HistogramFamily.add_metric`."""
        bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self._counts), strict=True)]
