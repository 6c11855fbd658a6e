"""Watches the network on a thread of its own, and tells edgehub's module of changes."""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from beehive import Actor, ModuleContext, Timer
from beehive.backoff import doubled
from edgehub.network.changes import worth_a_line

_log = logging.getLogger(__name__)

DIAL_INTERVAL: Final = 3.0
"""Seconds between two dials caused by changes of the network, for interfaces that flap."""
LONGEST_INTERVAL: Final = 60.0
"""Largest time between two dials that are broken off. It doubles from `DIAL_INTERVAL` until the link is up: a dial
takes half a minute at most, so that it comes to its end however often the network changes.
"""
_MOST_DOUBLED: Final = 10
"""Count of dials broken off above which it grows no more."""


class NetworkWatch(Protocol):
    """A watch that reports changes of the network; `edgehub.network.netlink` implements it."""

    def run(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with a text for each change until `close`. Blocks; raises OSError when it fails."""

    def close(self) -> None:
        """End `run`; any thread."""


WatchNetwork = Callable[[], NetworkWatch]
"""Opens a watch; raises OSError on a system without watches."""


class NetworkWatcher(Actor):
    """The actor that runs the network's watch until its end; close the watch before stopping the actor.

    Args:
        changed: called with each change; does not block.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        super().__init__()
        self._changed = changed

    def on_receive(self, message: object) -> None:
        """Watch until the end. Without a watch the link's deadlines find dead links, later."""
        try:
            message.run(self._changed)  # type: ignore[attr-defined]
        except OSError as error:
            _log.warning("changes of the network are no longer watched: %s", error)


class NetworkGuard:
    """A guard that starts the watch of the network, and limits how often its changes may cause a dial.

    Args:
        context: the module.
        watch: opens the watch; None for no watch.
        changed: called for each change, on the module's thread, with whether it concerns a way out: the default route,
            or a device that has one.
    """

    def __init__(self, context: ModuleContext, watch: WatchNetwork | None, changed: Callable[[bool], None]) -> None:
        self._context = context
        self._make = watch
        self._changed = changed
        self._watch: NetworkWatch | None = None
        self._news = ""
        """The newest change of a way out that was not followed by a call to the cloud."""
        self._last = float("-inf")
        self._broken_off = 0
        """Number of dials that were broken off since the link was up."""
        self._later: Timer | None = None
        self._later_at = float("inf")

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
        """Return whether a change may cause a dial now, while none is under way, and count it. If not, report the
        change again later.
        """
        return self._may(DIAL_INTERVAL, is_way_out=False)

    def may_break_off(self) -> bool:
        """Return whether a change of a way out may break off the dial that is under way, and count it.

        If not, report the change again later, unless another dial has begun: the dial under way may have begun in the
        old network.
        """
        interval = doubled(DIAL_INTERVAL, max(0, self._broken_off - 1), LONGEST_INTERVAL)
        if not self._may(interval, is_way_out=True):
            return False
        self._broken_off = min(self._broken_off + 1, _MOST_DOUBLED)
        return True

    def dialled(self) -> None:
        """Note that a dial has begun, in the network as it is now."""
        if self._later is not None:
            self._later.cancel()
            self._later, self._later_at = None, float("inf")

    def opened(self) -> None:
        """Note that the link is up."""
        self._broken_off, self._news = 0, ""

    def _may(self, interval: float, *, is_way_out: bool) -> bool:
        now = self._context.clock.monotonic()
        due = self._last + interval
        if due <= now:
            self._last = now
            if told := worth_a_line(self._news):
                _log.info("the network has changed: %s; dialling the cloud now", told)
            self._news = ""
            return True
        if due < self._later_at:
            self.dialled()
            self._later_at = due
            self._later = self._context.after(due - now, lambda: self._report_again(is_way_out=is_way_out))
        return False

    def _report_again(self, *, is_way_out: bool) -> None:
        self._later, self._later_at = None, float("inf")
        self._changed(is_way_out)

    def _report(self, what: str) -> None:
        """Report a change, on the watcher's thread."""
        self._context.call_soon(lambda: self._handle_change(what), "network")

    def _handle_change(self, what: str) -> None:
        _log.debug("the network has changed: %s", what)
        if worth_a_line(what):
            self._news = what
        self._changed(bool(worth_a_line(what)))
