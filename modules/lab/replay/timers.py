"""Timers with random lengths: in a replay they get the recorded length.

edgehub draws at random how long it waits before it dials again; without the seed nothing else can draw the same. A
timer is known by its function and the time when it was set. A timer that did not fire was cancelled, because the
network had changed: then edgehub dials before the next recorded attempt ends.
"""

from bisect import bisect_right
from collections.abc import Callable
from math import inf
from typing import Final

from beehive.clock import Timer
from beehive.trace import Note, Record, TimerFired
from edgehub.module import EdgeHub

_NEAR: Final = 0.25
"""Seconds that a timer may be set earlier or later than the recorded one."""
_ATTEMPT: Final = 0.001
"""Seconds of an attempt whose begin is not recorded."""
_DIAL: Final = EdgeHub._dial.__qualname__


class RecordedTimers:
    """Lengths of a module's recorded timers.

    Args:
        records: records of the run.
        module: module that set the timers.
    """

    def __init__(self, records: tuple[Record, ...], module: str) -> None:
        self._fired = [one for one in records if isinstance(one, TimerFired) and one.module == module]
        self._attempts = [one.time for one in records if isinstance(one, Note) and one.kind == "link"]
        """When the link came up, was lost, or could not be opened."""

    def seconds(self, name: str, now: float, seconds: float) -> float:
        """Return the length of a timer that is set now; `seconds` if none was recorded."""
        attempt = self._next_attempt(now) if name == _DIAL else inf
        for one in self._fired:
            fired = one.time - one.handled
            is_meant = one.name == name and not one.periodic and fired <= attempt
            if is_meant and abs(fired - one.seconds - now) < _NEAR:
                self._fired.remove(one)
                return max(0.0, fired - now)
        return min(seconds, attempt - now - _ATTEMPT)

    def _next_attempt(self, now: float) -> float:
        """Return when the next recorded attempt to connect was over; infinite after the last one."""
        after = bisect_right(self._attempts, now + _ATTEMPT)
        return self._attempts[after] if after < len(self._attempts) else inf


def timed(timers: RecordedTimers) -> type[EdgeHub]:
    """Return edgehub with the recorded timers."""

    class TimedEdgeHub(EdgeHub):
        """edgehub as it is, but for the length of its timers."""

        def after(self, seconds: float, function: Callable[[], None]) -> Timer:
            """See `Module.after`."""
            name = getattr(function, "__qualname__", "")
            return super().after(timers.seconds(name, self.clock.monotonic(), seconds), function)

    return TimedEdgeHub
