"""Whose turn it is: nodes whose frames wait are served by turns, each in proportion to what its frames cost.

Start-time fair queueing: who has something to do again begins where the others are now, and every service moves the one
served on by its cost. So however much one node has sent, the first frame of another waits for one frame of each.
"""

import heapq
import itertools
from typing import Generic, TypeVar

T = TypeVar("T")


class FairShare(Generic[T]):
    """Those that wait for service. Everything takes logarithmic time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._waiting: set[T] = set()
        self._reached: dict[T, float] = {}
        """How far those are that were served and are ahead of the others."""
        self._now = 0.0
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, who: T) -> None:
        """Somebody waits for service; once, however often it is said."""
        if who not in self._waiting:
            self._waiting.add(who)
            begin = max(self._now, self._reached.pop(who, 0.0))
            heapq.heappush(self._heap, (begin, next(self._numbers), who))

    def take(self) -> T | None:
        """Who is served now; None when nobody waits. What the service costs is for `charge`."""
        while self._heap:
            begin, _, who = heapq.heappop(self._heap)
            if who in self._waiting:
                self._waiting.remove(who)
                self._now = max(self._now, begin)
                self._reached[who] = begin
                return who
        self._reached.clear()  # nobody waits, so nobody is ahead of anybody
        return None

    def charge(self, who: T, cost: float) -> None:
        """Somebody was served at this cost."""
        if who not in self._waiting:
            self._reached[who] = self._reached.get(who, self._now) + cost

    def forget(self, who: T) -> None:
        """Somebody has gone."""
        self._waiting.discard(who)
        self._reached.pop(who, None)
