"""What edgehub's module holds of the watch: its making, and how often a change may have the cloud dialled."""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from beehive import Clock, Timer
from edgehub.network.lookout import Lookout, NetworkWatch, WatchNetwork

_log = logging.getLogger(__name__)

BETWEEN: Final = 3.0
"""Seconds between two tries that changes of the network cause: a device that comes and goes must not become a storm."""


class Owner(Protocol):
    """The module."""

    @property
    def clock(self) -> Clock:
        """Time."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn, later."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call in the module's own turn."""

    def start_actor(self, actor_class: type[Lookout], *args: Any) -> Any:
        """Start an actor that lives with the module."""


class NetworkGuard:
    """See the module's docstring.

    Args:
        owner: the module, on whose thread this lives.
        watch: makes the watch; None: there is none.
        changed: told of each change, in the module's turn.
    """

    def __init__(self, owner: Owner, watch: WatchNetwork | None, changed: Callable[[], None]) -> None:
        self._owner = owner
        self._make = watch
        self._changed = changed
        self._watch: NetworkWatch | None = None
        self._last = float("-inf")
        self._later: Timer | None = None

    def start(self) -> None:
        """Begin to watch, where that is possible."""
        if self._make is None:
            return
        try:
            self._watch = self._make()
        except OSError as error:
            _log.info("changes of the network are not seen (%s); a lost link is found by its deadlines", error)
            return
        self._owner.start_actor(Lookout, self._told).tell(self._watch)

    def stop(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.close()

    def may_dial(self) -> bool:
        """Whether a change may have the cloud dialled now; counts as done if so. If not, the change is told again as
        soon as it may: the try that goes on may be one into the network of before.
        """
        now = self._owner.clock.monotonic()
        wait = self._last + BETWEEN - now
        if wait > 0:
            if self._later is None:
                self._later = self._owner.after(wait, self._tell_again)
            return False
        self._last = now
        return True

    def _tell_again(self) -> None:
        self._later = None
        self._changed()

    def _told(self, what: str) -> None:
        """On the lookout's thread."""
        _log.info("the network has changed: %s", what)
        self._owner.call_soon(self._changed)
