"""Measures the transactions of a database, for metrics."""

from itertools import repeat

from beehive.clock import Clock
from modules.cloud.durations import Durations


class TransactionMeter:
    """The meter of the transactions of one user of a database, on its thread; any thread may read it.

    Args:
        clock: the time. Without it, all durations are 0.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._monotonic = repeat(0.0).__next__ if clock is None else clock.monotonic
        self._since = 0.0
        self.waits = Durations()
        """How long transactions waited for their turn, behind other modules of this process."""
        self.transactions = Durations()
        """The durations of the transactions, without that time; waits for other processes are part of them."""
        self.failures = 0
        """Attempts to use the database that failed."""

    def waiting(self) -> None:
        """Note that a transaction waits for its turn."""
        self._since = self._monotonic()

    def begun(self) -> None:
        """Note that its turn has come."""
        now = self._monotonic()
        self.waits.observe(now - self._since)
        self._since = now

    def ended(self) -> None:
        """Note that it has ended."""
        self.transactions.observe(self._monotonic() - self._since)
