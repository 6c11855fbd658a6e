"""How long a server may say nothing about its state."""

from typing import Final

SILENCE: Final = 120.0
"""Seconds without an object or a bookmark after which the objects are listed; API servers send a bookmark each 60 s.

It is doubled for each silence that follows on one, up to `LONGEST_SILENCE`, for servers without bookmarks.
"""
LONGEST_SILENCE: Final = 1200.0


class Silence:
    """When a server last told something about its state, and when it will have been silent for too long."""

    def __init__(self) -> None:
        self.since = 0.0
        self._in_a_row = 0

    @property
    def ends_at(self) -> float:
        """Return when the objects are to be listed."""
        return self.since + min(LONGEST_SILENCE, SILENCE * 2.0 ** min(self._in_a_row, 10))

    def is_too_long(self, now: float) -> bool:
        """Return whether the objects are to be listed."""
        return now >= self.ends_at

    def listed(self, now: float) -> None:
        """Note a complete list."""
        self.since = now

    def broken(self, now: float) -> None:
        """Note an object or a bookmark."""
        self.since = now
        self._in_a_row = 0

    def prolong(self) -> None:
        """Note that a watch was silent for too long, so that the next one may be silent for longer."""
        self._in_a_row += 1
