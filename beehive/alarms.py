"""The timers of a clock, by time: what the real clock and the virtual one have in common.

A node sets and cancels a deadline for every request, so cancelled entries are dropped when half of the heap is such,
not only when their time comes. There are no locks here; the real clock has one around it.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol


class Owner(Protocol):
    """The clock of an alarm."""

    def withdraw(self, alarm: "Alarm") -> bool:
        """Cancel the alarm; False when it has fired or was cancelled before."""


class Alarm:
    """One timer. Its function is gone when it has fired or was cancelled."""

    __slots__ = ("_owner", "function")

    def __init__(self, owner: Owner, function: Callable[[], None]) -> None:
        self._owner = owner
        self.function: Callable[[], None] | None = function

    @property
    def active(self) -> bool:
        """Whether it will still fire."""
        return self.function is not None

    def cancel(self) -> bool:
        """See `beehive.clock.Timer`."""
        return self._owner.withdraw(self)


class Alarms:
    """Alarms in the order of their time, those of the same time in the order in which they were set."""

    SLACK = 64
    """Cancelled entries that are tolerated."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, owner: Owner, due: float, function: Callable[[], None]) -> Alarm:
        """A new alarm."""
        alarm = Alarm(owner, function)
        heapq.heappush(self._heap, (due, next(self._order), alarm))
        return alarm

    def withdraw(self, alarm: Alarm) -> bool:
        """Cancel; False when there was nothing left to cancel."""
        if alarm.function is None:
            return False
        alarm.function = None
        self._cancelled += 1
        if self._cancelled > self.SLACK and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].function is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
        return True

    def first_due(self) -> float | None:
        """When the next one fires."""
        while self._heap and self._heap[0][2].function is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Callable[[], None] | None:
        """Take the first one's function; call it right after `first_due`."""
        _, _, alarm = heapq.heappop(self._heap)
        function, alarm.function = alarm.function, None
        return function

    def clear(self) -> None:
        """Cancel all."""
        for _, _, alarm in self._heap:
            alarm.function = None
        self._heap.clear()
        self._cancelled = 0
