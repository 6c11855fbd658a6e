"""Clocks for tests."""

from beehive import RealClock


class Ahead(RealClock):
    """The machine's clock, which the test puts ahead."""

    seconds = 0.0

    def monotonic(self) -> float:
        return RealClock.monotonic() + self.seconds
