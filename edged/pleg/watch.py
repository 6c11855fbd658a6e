"""Keeps an eye on the runtime for the edged module: the PLEG and the listener to the runtime's own events.

What they see is told in the module's turn; while the runtime cannot be looked at that is said once.
"""

import logging
from collections.abc import Callable
from typing import Any

from beehive import Module
from edged.cri.contract import ContainerRuntime
from edged.pleg.hints import Hints
from edged.pleg.listener import Listener
from edged.pleg.messages import Event, LookAround, Looked, Observed, Relisted, RelistFailed, Seen
from edged.pleg.pace import Pace
from edged.pleg.pleg import Pleg
from edged.pleg.reader import RuntimeReader
from edged.pleg.recording import pod_changed
from edged.settings import EdgedSettings

Turn = Callable[[Callable[[Any], None]], Callable[[Any], None]]
"""Makes of a function one that is called in the module's turn."""

_log = logging.getLogger(__name__)


class RuntimeWatch:
    """Lives on the module's thread.

    Args:
        module: edged.
        seen: is told of a pod at which the runtime was looked.
        relisted: is told of a look at everything.
        looked: called at every look, whatever came of it.
    """

    def __init__(
        self,
        module: Module,
        settings: EdgedSettings,
        *,
        seen: Callable[[Seen], None],
        relisted: Callable[[Relisted], None],
        looked: Callable[[], None],
    ) -> None:
        self._module = module
        self._settings = settings
        self._seen = seen
        self._relisted = relisted
        self._looked = looked
        self._hints = Hints(settings.relist_period)
        self._problem = ""

    def start(
        self,
        client: ContainerRuntime,
        reader: RuntimeReader,
        turn: Callable[[Callable[[Any], None]], Callable[[Any], None]],
    ) -> None:
        """Look from now on. `turn` brings a call into the module's own turn."""
        pace = Pace(self._settings.relist_period, self._settings.relist_period_with_events)
        self._pleg = pleg = self._module.start_actor(Pleg, reader, turn(self._on_event), pace, self._hints)
        if self._settings.relist_period_with_events:
            self._module.start_actor(Listener, client, self._hints, pleg.tell)

    def look_around(self) -> None:
        """Somebody waits for a look at everything."""
        self._pleg.tell(LookAround())

    def observed(self, observed: Observed) -> None:
        """A worker has looked at a pod itself."""
        self._hints.observe(observed)

    def _on_event(self, event: Event) -> None:
        self._looked()
        match event:
            case RelistFailed(error):
                self._note_problem(str(error))
            case Looked(seen):
                self._record(seen)
                self._seen(seen)
            case Relisted(changed):
                self._note_problem("")
                for seen in changed:
                    self._record(seen)
                self._relisted(event)

    def _note_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            if problem:
                _log.warning("the runtime cannot be looked at: %s", problem)
            else:
                _log.info("the runtime can be looked at again")

    def _record(self, seen: Seen) -> None:
        hive = self._module.hive
        if hive.watchers:
            hive.tell_watchers(pod_changed(seen, self._module.clock.monotonic(), hive.next_span))
