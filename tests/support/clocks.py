"""Clocks for tests with real threads and sockets."""

from beehive.clock import RealClock


class Ahead(RealClock):
    """The machine's clock, which the test puts ahead."""

    seconds = 0.0

    def monotonic(self) -> float:
        return RealClock.monotonic() + self.seconds


class StandingClock(RealClock):
    """The machine's clock, whose `monotonic` stands still until a test puts it forward: no deadline passes while the
    machine does something else. Timers go by the machine's time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seconds = RealClock.monotonic()

    def monotonic(self) -> float:
        """The seconds of the clock's creation, plus the test's advances."""
        return self._seconds

    def go(self, seconds: float) -> None:
        """Put it forward."""
        self._seconds += seconds
