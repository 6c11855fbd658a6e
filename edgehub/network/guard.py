"""Connects the watch of the network to edgehub's module."""

import logging
from collections.abc import Callable
from typing import Final

from beehive import ModuleContext, Timer
from edgehub.network.changes import worth_a_line
from edgehub.network.watcher import NetworkWatch, NetworkWatcher, WatchNetwork

_log = logging.getLogger(__name__)

DIAL_INTERVAL: Final = 3.0
"""Seconds between two dials caused by changes of the network, for interfaces that flap."""


class NetworkGuard:
    """Starts the watch of the network, and limits how often its changes may cause a dial.

    Args:
        context: the module.
        watch: opens the watch; None for no watch.
        changed: called for each change, on the module's thread.
    """

    def __init__(self, context: ModuleContext, watch: WatchNetwork | None, changed: Callable[[], None]) -> None:
        self._context = context
        self._make = watch
        self._changed = changed
        self._watch: NetworkWatch | None = None
        self._last = float("-inf")
        self._later: Timer | None = None

    def start(self) -> None:
        """Start watching, if the system allows it."""
        if self._make is None:
            return
        try:
            self._watch = self._make()
        except OSError as error:
            _log.info("changes of the network are not seen (%s); a lost link is found by its deadlines", error)
            return
        self._context.start_actor(NetworkWatcher, self._report).tell(self._watch)

    def stop(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()

    def may_dial(self) -> bool:
        """Return whether a change may cause a dial now, and count it.

        If not, report the change again later: the dial under way may have begun in the old network.
        """
        now = self._context.clock.monotonic()
        wait = self._last + DIAL_INTERVAL - now
        if wait > 0:
            if self._later is None:
                self._later = self._context.after(wait, self._report_again)
            return False
        self._last = now
        return True

    def _report_again(self) -> None:
        self._later = None
        self._changed()

    def _report(self, what: str) -> None:
        """Report a change, on the watcher's thread."""
        if told := worth_a_line(what):
            _log.info("the network has changed: %s", told)
        self._context.call_soon(self._changed)
