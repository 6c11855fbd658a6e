"""The answers that the PLEG has read from the container runtime in a recorded run, by inspection.

It reads one thing after the other on its thread: the sandboxes, the containers, and then the status of each that has
changed, which takes a busy machine a tenth of a second. A replay asks at once, and gets what the same inspection got.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from beehive.trace import CriCall
from modules.lab.replay.worker_reads import FIRST

_LATE: Final = 0.25
"""Seconds that an inspection may begin later than the recorded one."""
_SOON: Final = 0.02
"""Seconds that it may begin earlier."""

_Answers = dict[Hashable, deque[CriCall]]


class InspectionReads:
    """Inspections of a recorded run; each is used once.

    Args:
        calls: of the PLEG, in the order of their beginnings.
        role: returns the role of a call.
    """

    def __init__(self, calls: Iterable[CriCall], role: Callable[[CriCall], Hashable]) -> None:
        self._inspections: dict[Hashable, deque[tuple[float, _Answers]]] = {}
        """Those to come, with their beginnings, by the role of the first call."""
        self._answers: _Answers = {}
        """What the present inspection has not asked yet."""
        present: _Answers = {}
        for call in calls:
            key = role(call)
            if call.method == FIRST:
                present = {}
                self._inspections.setdefault(key, deque()).append((call.time - call.seconds, present))
            present.setdefault(key, deque()).append(call)

    def answer(self, method: str, key: Hashable, now: float) -> CriCall | None:
        """Return the answer to the next call of the PLEG; None if the inspection had no such call.

        Args:
            method: of the call; the first one of an inspection begins it.
            key: role of the call.
            now: the time.
        """
        if method == FIRST:
            self._answers = self._begin(key, now)
        waiting = self._answers.get(key)
        return waiting.popleft() if waiting else None

    def _begin(self, key: Hashable, now: float) -> _Answers:
        inspections = self._inspections.get(key, deque())
        while inspections and inspections[0][0] < now - _LATE:
            inspections.popleft()
        is_near = bool(inspections) and inspections[0][0] <= now + _SOON
        return inspections.popleft()[1] if is_near else {}
