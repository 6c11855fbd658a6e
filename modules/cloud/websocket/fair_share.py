"""Start-time fair queueing."""

import heapq
import itertools
from typing import Generic, TypeVar

T = TypeVar("T")


class FairShare(Generic[T]):
    """A queue whose members are served in equal shares of cost (start-time fair queueing).

    Each service has a cost, which advances a member's virtual time; the member with the earliest time is next. A member
    that joins starts at the present time. So the first frame of a node waits for at most one frame of each other node,
    however much these have sent. Every operation takes logarithmic time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self.waiting: set[T] = set()
        """The members that are queued."""
        self._reached: dict[T, float] = {}
        """Virtual times of members after their last service, and the one that they are queued for."""
        self._now = 0.0
        self._numbers = itertools.count()

    def add(self, member: T, cost: float) -> None:
        """Queue a member for a service of a cost, unless it is queued already."""
        if member not in self.waiting:
            self.waiting.add(member)
            begin = max(self._now, self._reached.get(member, 0.0))
            self._reached[member] = begin + cost
            heapq.heappush(self._heap, (begin, next(self._numbers), member))

    def pop(self) -> T | None:
        """Remove and return the next member, or None."""
        while self._heap:
            begin, _, member = heapq.heappop(self._heap)
            if member in self.waiting:
                self.waiting.remove(member)
                self._now = max(self._now, begin)
                return member
        self._reached.clear()  # no member waits, so none is ahead
        return None

    def forget(self, member: T) -> None:
        """Remove a member."""
        self.waiting.discard(member)
        self._reached.pop(member, None)
