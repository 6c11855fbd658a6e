"""Timers with random lengths: in a replay they get the recorded length.

edgehub draws at random how long it waits before it dials again; without the seed nothing else can draw the same. A
timer is known by its function and the time when it was set.
"""

from collections.abc import Callable

from beehive.clock import Timer
from beehive.trace import Record, TimerFired
from edgehub.module import EdgeHub

_NEAR = 0.25
"""Seconds that a timer may be set earlier or later than the recorded one."""


class RecordedTimers:
    """Lengths of a module's recorded timers.

    Args:
        records: records of the run.
        module: module that set the timers.
    """

    def __init__(self, records: tuple[Record, ...], module: str) -> None:
        self._fired = [one for one in records if isinstance(one, TimerFired) and one.module == module]

    def seconds(self, name: str, now: float, seconds: float) -> float:
        """Return the length of a timer that is set now; `seconds` if none was recorded."""
        for one in self._fired:
            if one.name == name and not one.periodic and abs(one.time - one.handled - one.seconds - now) < _NEAR:
                self._fired.remove(one)
                return max(0.0, one.time - one.handled - now)
        return seconds


def timed(timers: RecordedTimers) -> type[EdgeHub]:
    """Return edgehub with the recorded timers."""

    class TimedEdgeHub(EdgeHub):
        """edgehub as it is, but for the length of its timers."""

        def after(self, seconds: float, function: Callable[[], None]) -> Timer:
            """See `Module.after`."""
            name = getattr(function, "__qualname__", "")
            return super().after(timers.seconds(name, self.clock.monotonic(), seconds), function)

    return TimedEdgeHub
