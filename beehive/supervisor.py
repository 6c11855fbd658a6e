"""Starts failed modules again, with back-off and full jitter, while the others go on.

KubeEdge restarts modules only behind a feature gate, and its users report that the crash of one module ends all of
them; here every module is restarted.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pykka

from beehive.actor import Actor
from beehive.backoff import Backoff
from beehive.clock import Timer
from beehive.inbox import Inbox

_log = logging.getLogger(__name__)

FIRST_DELAY = 1.0
"""Ceiling of the delay before the first restart, in seconds."""

LONGEST_DELAY = 30.0
"""Ceiling that the delay never passes, in seconds (KubeEdge's RestartIntervalLimit)."""

GOOD_RUN = 60.0
"""Seconds without a failure after which the delays start from `FIRST_DELAY` again."""


class ModuleDown(msgspec.Struct, frozen=True):
    """Message to the supervisor: an exception has stopped a module."""

    name: str
    error: BaseException


class _Restart(msgspec.Struct, frozen=True):
    name: str


class Supervisor(Actor):
    """The actor that calls `restart` with a module's name, a delay after `ModuleDown`, on its own thread."""

    def __init__(self, restart: Callable[[str], None]) -> None:
        super().__init__()
        self._restart = restart
        self._backoffs: dict[str, Backoff] = {}
        self._last: dict[str, float] = {}
        self._timers: dict[str, Timer] = {}
        self._inbox: Inbox = self.actor_inbox  # type: ignore[assignment]

    def on_stop(self) -> None:
        """Cancel all restarts."""
        for timer in self._timers.values():
            timer.cancel()

    def on_receive(self, message: object) -> None:
        """Handle a failure or a due restart."""
        if isinstance(message, ModuleDown):
            self._schedule(message)
        elif isinstance(message, _Restart):
            self._restart(message.name)

    def _schedule(self, failure: ModuleDown) -> None:
        now = self.clock.monotonic()
        backoff = self._backoffs.setdefault(failure.name, Backoff(FIRST_DELAY, LONGEST_DELAY))
        if now - self._last.get(failure.name, now) > GOOD_RUN:
            backoff.reset()
        self._last[failure.name] = now
        delay = backoff.next(self.clock.random)
        _log.error(
            "module %s failed (%s: %s); starting it again in %.2f s",
            failure.name, type(failure.error).__name__, failure.error, delay, exc_info=failure.error,
        )  # fmt: skip
        due: Any = pykka._envelope.Envelope(_Restart(failure.name))
        self._timers[failure.name] = self.clock.after(delay, lambda: self._inbox.put_urgent(due))
