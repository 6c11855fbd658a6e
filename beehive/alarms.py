"""The pending timers of a clock, shared by the real clock and the virtual one."""

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol


class AlarmOwner(Protocol):
    """The clock that an alarm belongs to."""

    def withdraw(self, alarm: "Alarm") -> bool:
        """Cancel the alarm; return False if it has fired or was cancelled before."""


class Alarm:
    """One timer. `function` is None once it fired or was cancelled."""

    __slots__ = ("_owner", "function")

    def __init__(self, owner: AlarmOwner, function: Callable[[], None]) -> None:
        self._owner = owner
        self.function: Callable[[], None] | None = function

    @property
    def active(self) -> bool:
        """Whether the alarm will still fire."""
        return self.function is not None

    def cancel(self) -> bool:
        """Cancel the alarm; return False if it has fired or was cancelled before."""
        return self._owner.withdraw(self)


class Alarms:
    """A heap of alarms by time; alarms of the same time keep the order in which they were set.

    A node sets and cancels a deadline for every request, so cancelled alarms are dropped as soon as they are half of
    the heap, and not only at their time. Not thread-safe: the real clock holds a lock around each call.
    """

    SLACK = 64
    """Cancelled alarms below which the heap is not rebuilt."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, owner: AlarmOwner, due: float, function: Callable[[], None]) -> Alarm:
        """Set a new alarm for `due`, in seconds of the owner's monotonic clock."""
        alarm = Alarm(owner, function)
        heapq.heappush(self._heap, (due, next(self._order), alarm))
        return alarm

    def withdraw(self, alarm: Alarm) -> bool:
        """Cancel the alarm; return False if it has fired or was cancelled before."""
        if alarm.function is None:
            return False
        alarm.function = None
        self._cancelled += 1
        if self._cancelled > self.SLACK and self._cancelled * 2 > len(self._heap):
            self._heap = sorted(entry for entry in self._heap if entry[2].function is not None)
            self._cancelled = 0
        return True

    def first_due(self) -> float | None:
        """Return the time of the next alarm, or None without one."""
        while self._heap and self._heap[0][2].function is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Callable[[], None] | None:
        """Remove the next alarm and return its function; call it right after `first_due`."""
        _, _, alarm = heapq.heappop(self._heap)
        function, alarm.function = alarm.function, None
        return function

    def clear(self) -> None:
        """Cancel all alarms."""
        for _, _, alarm in self._heap:
            alarm.function = None
        self._heap.clear()
