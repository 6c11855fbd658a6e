"""Does what has to be done again and again and can wait a moment: chores, each in its period, one after the other.

They share a thread: none of them is urgent, and together they cannot take more of the machine than one at a time. A
chore that fails is done again in its next turn; the log says so once, until it fails in another way.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from beehive import Actor
from edged.errors import EdgedError

_log = logging.getLogger(__name__)


class Chore(NamedTuple):
    """Something to do."""

    name: str
    """For the log, after "cannot"."""
    period: float
    """Seconds between its end and its next beginning."""
    run: Callable[[], None]
    first: float | None = None
    """Seconds until it is done first; the period, unless given."""


class Now(NamedTuple):
    """Do all chores now, beside their periods. Of many at once one counts."""

    since: float
    """When it was asked for, monotonic seconds."""


class Housekeeper(Actor):
    """See the module's docstring."""

    def __init__(self, chores: Sequence[Chore]) -> None:
        super().__init__()
        self._chores = tuple(chores)
        self._begun = float("-inf")
        """When the last chore was begun, monotonic seconds."""
        self._problems: dict[str, str] = {}

    def on_start(self) -> None:
        """Begin to wait."""
        for chore in self._chores:
            self._plan(chore, chore.period if chore.first is None else chore.first)

    def on_receive(self, message: object) -> None:
        """Do a chore."""
        if isinstance(message, Chore):
            self._do(message)
            self._plan(message, message.period)
        elif isinstance(message, Now) and message.since > self._begun:
            for chore in self._chores:
                self._do(chore)

    def _plan(self, chore: Chore, seconds: float) -> None:
        self.clock.after(seconds, lambda: None if self.actor_stopped.is_set() else self.actor_ref.tell(chore))

    def _do(self, chore: Chore) -> None:
        self._begun = self.clock.monotonic()
        try:
            chore.run()
        except (EdgedError, OSError) as error:
            problem = str(error)
            if self._problems.get(chore.name) != problem:
                _log.warning("cannot %s, and try again: %s", chore.name, problem)
            self._problems[chore.name] = problem
        except Exception:  # noqa: BLE001 - no pod depends on it
            _log.exception("cannot %s, for a reason nobody foresaw", chore.name)
        else:
            self._problems.pop(chore.name, None)
