"""A histogram of durations, for metrics."""

from typing import Final

from beehive.exposition import Histogram

BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Upper bounds of the buckets, in seconds."""


class Durations(Histogram):
    """Numbers of durations of the cloud's work."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(BOUNDS)
