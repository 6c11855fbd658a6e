"""When each module began its turns in a recorded run: messages, timers, answers and results of other threads.

A module does one thing at a time. While the machine stands still, or a handler takes seconds, nothing else of it
happens: what a turn does comes before the module's next turn, however long that takes.
"""

from bisect import bisect_right
from collections.abc import Iterable
from math import inf
from typing import Final

from beehive.delivery import DeliveryMode
from beehive.trace import Delivered, Note, NoteKind, Record, TimerFired
from modules.lab.replay.outputs import handled_from

_LONGEST: Final = 10.0
"""Seconds that a turn may last; a module without a turn for longer had nothing to do."""
_MOMENT: Final = 2e-6
"""Seconds by which the time of a turn may differ in a replay."""


class ModuleTurns:
    """The beginnings of all turns in a run.

    Args:
        records: of the run.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._begun: dict[str, list[float]] = {}
        self.handled: dict[int, float] = {}
        """When the handling of messages began, by their spans."""
        for one in records:
            match one:
                case Delivered() if one.way != DeliveryMode.RESPONSE and one.outcome == "handled":
                    self.handled[one.span] = handled_from(one)
                    self._begun.setdefault(one.module, []).append(handled_from(one))
                case TimerFired():
                    self._begun.setdefault(one.module, []).append(one.time - one.handled)
                case Note(kind=NoteKind.TURN):
                    self._begun.setdefault(one.module, []).append(one.time)
        for begun in self._begun.values():
            begun.sort()

    def latest(self, module: str, time: float, seconds: float) -> float:
        """Return the time `seconds` after the first turn that a module began later than at `time`; after `time` itself
        if it soon began none.
        """
        begun = self._begun.get(module, [])
        number = bisect_right(begun, time + _MOMENT)
        is_known = number < len(begun) and begun[number] <= time + _LONGEST
        return (begun[number] if is_known else time) + seconds

    def last(self, module: str) -> float:
        """Return when a module began its last turn; infinity if it had none."""
        begun = self._begun.get(module)
        return begun[-1] if begun else inf
