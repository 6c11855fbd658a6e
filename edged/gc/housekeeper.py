"""The actor for periodic chores."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from beehive import Actor
from edged.cri.errors import UnavailableError
from edged.errors import EdgedError

_log = logging.getLogger(__name__)


class Chore(NamedTuple):
    """A periodic task."""

    name: str
    """For the log, after "cannot"."""
    period: float
    """Seconds between the end of one run and the start of the next."""
    run: Callable[[], None]
    first: float | None = None
    """Seconds until the first run; the period, unless given."""


class Now(NamedTuple):
    """Run all chores now, in addition to their periods. Several waiting requests count as one."""

    since: float
    """When it was requested, in monotonic seconds."""


class Housekeeper(Actor):
    """Runs chores periodically, one after the other on its thread: none is urgent, and together they load the machine
    less.

    A chore that fails runs again after its period; a problem is logged once, until another one occurs.

        Housekeeper([Chore("collect dead containers", 60.0, collector.collect)])
    """

    def __init__(self, chores: Sequence[Chore]) -> None:
        super().__init__()
        self._chores = tuple(chores)
        self._last_start = float("-inf")
        """When the last chore was started, in monotonic seconds."""
        self._problems: dict[str, str] = {}

    def on_start(self) -> None:
        """Schedule all chores."""
        for chore in self._chores:
            self._schedule(chore, chore.period if chore.first is None else chore.first)

    def on_receive(self, message: object) -> None:
        """Run a chore, or all of them."""
        if isinstance(message, Chore):
            self._run(message)
            self._schedule(message, message.period)
        elif isinstance(message, Now) and message.since > self._last_start:
            for chore in self._chores:
                self._run(chore)

    def _schedule(self, chore: Chore, seconds: float) -> None:
        self.clock.after(seconds, lambda: None if self.actor_stopped.is_set() else self.actor_ref.tell(chore))

    def _run(self, chore: Chore) -> None:
        self._last_start = self.clock.monotonic()
        try:
            chore.run()
        except (EdgedError, OSError) as error:
            problem = str(error)
            if self._problems.get(chore.name) != problem and not isinstance(error, UnavailableError):
                _log.warning("cannot %s, and try again: %s", chore.name, problem)
            self._problems[chore.name] = problem
        except Exception:  # noqa: BLE001 - no pod depends on it
            _log.exception("cannot %s, for a reason nobody foresaw", chore.name)
        else:
            self._problems.pop(chore.name, None)
