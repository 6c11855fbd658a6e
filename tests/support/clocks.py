"""Clocks for tests with real threads and sockets."""

from beehive.clock import RealClock


class Ahead(RealClock):
    """The machine's clock, which the test puts ahead."""

    seconds = 0.0

    def monotonic(self) -> float:
        return RealClock.monotonic() + self.seconds


class StandingClock(RealClock):
    """The machine's clock, of which `monotonic` stands still until a test puts it forward: no deadline passes while the
    machine does something else. Timers go by the machine's time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seconds = RealClock.monotonic()

    def monotonic(self) -> float:
        """The seconds at which the clock was made, and those that it was put forward."""
        return self._seconds

    def go(self, seconds: float) -> None:
        """Put it forward."""
        self._seconds += seconds
