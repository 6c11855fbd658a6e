"""How much is pulled at once; apart from the pulls, because settings name it."""

from msgspec import Struct


class PullLimits(Struct, frozen=True):
    """How much is pulled at once."""

    parallel: int = 1
    """Pulls that run at once; 0: no limit."""
    rate: float = 5.0
    """Pulls that begin a second, on average; 0: no limit."""
    burst: int = 10
    """Pulls that may begin at once."""
