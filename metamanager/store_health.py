"""Reports whether the database takes changes."""

import logging
from collections.abc import Callable
from typing import Final

from beehive import Module, ModuleName, Operation, Timer
from beehive.names import DISK_RESOURCE
from metamanager.errors import StoreError

_log = logging.getLogger(__name__)

PROBE_AFTER: Final = 10.0
"""Seconds after which a database that refused a change is tried again."""


class StoreStatistics:
    """Counts of the database since the process started. They outlive the module's restarts."""

    def __init__(self) -> None:
        self.write_failures = 0
        """Changes and commits refused by the database."""
        self.takes_changes = True
        """Whether the database accepted the last one."""


class StoreHealth:
    """The health of the store: the module's readiness, its metrics and the log, by the results of commits.

    While the database refuses changes, the module is not ready and writes a probe every `PROBE_AFTER` seconds:
    without a cloud there may be no other write for a long time. edged receives a message to check the disk immediately.

    Args:
        module: metamanager.
        statistics: counts failures for the metrics.
        write_probe: writes and commits a row.
    """

    def __init__(self, module: Module, statistics: StoreStatistics, write_probe: Callable[[], None]) -> None:
        self._module = module
        self._statistics = statistics
        self._write_probe = write_probe
        self._problem = ""
        """Hint of the last error; empty while the database takes changes."""
        self._next_probe: Timer | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the database has refused the last change or commit."""
        return not self._statistics.takes_changes

    def recovered(self) -> None:
        """Take that a commit has succeeded after failures."""
        if self._problem:
            _log.warning("the database takes changes again")
            self._module.announce_ready()
        self._problem = ""
        self._statistics.takes_changes = True

    def report(self, error: StoreError) -> None:
        """Take the failure of a change or commit.

        An error like the one before is not logged again: the cloud repeats unacknowledged messages every few seconds.
        """
        self._statistics.write_failures += 1
        if error.hint != self._problem:
            _log.error("%s", error)
            self._module.announce_not_ready(str(error))
            self._module.send(ModuleName.EDGED, self._module.message(DISK_RESOURCE, Operation.UPDATE, None))
        self._problem = error.hint
        self._statistics.takes_changes = False
        if self._next_probe is None:
            self._next_probe = self._module.after(PROBE_AFTER, self._probe)

    def _probe(self) -> None:
        self._next_probe = None
        if self._problem:
            self._write_probe()
