"""The keys of objects that controllers have to look at."""

import heapq
from collections import Counter
from typing import Final

from modules.apimachinery.kinds import ObjectKey

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 60.0
"""Seconds of the pause after a failure: twice as long each time."""


class WorkQueue:
    """Keys in the order of arrival, each once; and keys whose time will come.

    The kinds have their turns: a Deployment does not wait for the thousands of Services that have its pods. All times
    are seconds since the epoch.
    """

    def __init__(self) -> None:
        self._due: dict[str, dict[ObjectKey, None]] = {}
        """The keys that are due by kind, the kind whose turn is next first; none is empty."""
        self._later: dict[ObjectKey, float] = {}
        """The earliest time of each key that waits."""
        self._heap: list[tuple[float, ObjectKey]] = []
        self._failures: dict[ObjectKey, int] = {}
        self._paused: set[ObjectKey] = set()
        """The keys that are not due before their time, whatever is added."""
        self._now = 0.0
        """The time at the last look for a key."""

    def depths(self) -> Counter[str]:
        """Return how many keys of each kind are due."""
        return Counter({kind: len(keys) for kind, keys in self._due.items()})

    def add(self, key: ObjectKey) -> None:
        """Add a key that is due; a pausing key goes on pausing."""
        if key not in self._paused:
            self._due.setdefault(key.kind, {})[key] = None

    def add_at(self, key: ObjectKey, moment: float) -> None:
        """Add a key that is due at a time, or earlier if it waits for an earlier one."""
        if moment < self._later.get(key, float("inf")):
            self._later[key] = moment
            heapq.heappush(self._heap, (moment, key))

    def failed(self, key: ObjectKey, now: float) -> float:
        """Let a key wait after a failure, longer each time; return until when."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        until = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 20))
        self.pause(key, until)
        return until

    def pause(self, key: ObjectKey, until: float) -> None:
        """Let a key wait until a time, and not be due earlier."""
        self._not_due(key)
        self._later.pop(key, None)
        self._paused.add(key)
        self.add_at(key, until)

    def succeeded(self, key: ObjectKey) -> None:
        """Forget the failures of a key, and its pause."""
        self._failures.pop(key, None)
        self._paused.discard(key)

    def forget(self, key: ObjectKey) -> None:
        """Forget a key whose object is gone."""
        self._not_due(key)
        for known in (self._later, self._failures):
            known.pop(key, None)
        self._paused.discard(key)

    def get(self, now: float) -> ObjectKey | None:
        """Return the next key that is due, or None. When the clock was set back, all keys that wait are due: else they
        would wait until it shows their times again.
        """
        if now < self._now:
            self._later = dict.fromkeys(self._later, now)
            self._heap = [(now, key) for key in sorted(self._later)]
        self._now = now
        while self._heap and self._heap[0][0] <= now:
            moment, key = heapq.heappop(self._heap)
            if self._later.get(key) == moment:
                del self._later[key]
                self._paused.discard(key)
                self._due.setdefault(key.kind, {})[key] = None
        if not self._due:
            return None
        kind = next(iter(self._due))
        keys = self._due.pop(kind)
        first = next(iter(keys))
        del keys[first]
        if keys:
            self._due[kind] = keys
        return first

    def _not_due(self, key: ObjectKey) -> None:
        keys = self._due.get(key.kind, {})
        keys.pop(key, None)
        if not keys:
            self._due.pop(key.kind, None)

    def next_time(self) -> float | None:
        """Return the earliest due time of a waiting key, or None."""
        while self._heap and self._later.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
