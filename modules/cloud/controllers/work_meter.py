"""Measures the work of the controllers, for metrics."""

from collections import Counter
from collections.abc import Mapping

from beehive.clock import Clock
from modules.cloud.durations import Durations


class WorkMeter:
    """The meter of the work of the controllers on their thread; any thread may read it. It outlives restarts of the
    module.

    Args:
        clock: the time. Without it, all durations are 0.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self.syncs: dict[str, Durations] = {}
        """From the look at an object to the end of the writes that follow, by kind."""
        self.retries: Counter[str] = Counter()
        """Looks that failed, or whose writes were refused, by kind."""
        self.depths: Mapping[str, int] = {}
        """How many objects of each kind are due; replaced as a whole."""

    def monotonic(self) -> float:
        """Return the seconds of the clock."""
        return 0.0 if self._clock is None else self._clock.monotonic()

    def ended(self, kind: str, since: float) -> None:
        """Count a look that has ended.

        Args:
            kind: of the object.
            since: its begin, in monotonic seconds.
        """
        self.syncs.setdefault(kind, Durations()).observe(self.monotonic() - since)

    def idle(self) -> None:
        """Note that the controllers do not run here any more."""
        self.depths = {}
