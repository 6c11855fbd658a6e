"""The time of a turn, for modules whose decisions depend on seconds."""

from collections.abc import Callable
from typing import Final

from beehive.clock import Clock, Timer
from beehive.trace_context import current_context

_LONGEST: Final = 10.0
"""The time of a turn stands still for so many seconds; a busy machine, or one that stood still, may need some."""


class TurnClock(Clock):
    """A clock that stands still in each turn of an observed module: while it handles one item of its inbox.

    A replay gives a module each item at the time when it was taken, and nothing takes time in it. A handler that read
    the clock after a second had turned would read another second there, and what is due a second after it would be due
    earlier. Other threads read the time as it is.

    Args:
        clock: has the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.random = clock.random

    def now(self) -> float:
        """Seconds since the Unix epoch when the turn began."""
        now, wall = self._clock.now(), current_context().wall
        return wall if 0.0 <= now - wall < _LONGEST else now

    def monotonic(self) -> float:
        """Monotonic seconds when the turn began."""
        now, began = self._clock.monotonic(), current_context().began
        return began if 0.0 <= now - began < _LONGEST else now

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self._clock.after(seconds, function)

    def new_id(self) -> str:
        return self._clock.new_id()

    def close(self) -> None:
        self._clock.close()
