"""Limits of image pulls; apart from `puller`, because edged's settings import them."""

from msgspec import Struct


class PullLimits(Struct, frozen=True):
    """Limits of image pulls."""

    parallel: int = 1
    """Largest number of running pulls; 0: no limit."""
    rate: float = 5.0
    """Pulls started per second, on average; 0: no limit."""
    burst: int = 10
    """Pulls that may start in a burst."""
