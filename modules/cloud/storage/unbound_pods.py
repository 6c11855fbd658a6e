"""The pods without a node, in the order in which a scheduler looks at them."""

from bisect import bisect_left, bisect_right, insort
from itertools import count
from typing import NamedTuple

from modules.apimachinery.kinds import JsonObject, ObjectKey


class Rank(NamedTuple):
    """The place of a pod: a higher priority comes first, then an earlier creation; of one second, the pod that came
    first.
    """

    below: int
    """The priority, negative."""
    created: str
    number: int
    key: ObjectKey


class UnboundPods:
    """The pods without a node, in order: a change costs the logarithm of their number."""

    def __init__(self) -> None:
        self._ranks: dict[ObjectKey, Rank] = {}
        self._order: list[Rank] = []
        self._numbers = count()

    def put(self, key: ObjectKey, pod: JsonObject) -> None:
        """Take a pod, or its new state."""
        known = self._ranks.get(key)
        number = next(self._numbers) if known is None else known.number
        rank = Rank(-priority_of(pod), str(pod["metadata"].get("creationTimestamp") or ""), number, key)
        if known != rank:
            self.drop(key)
            self._ranks[key] = rank
            insort(self._order, rank)

    def drop(self, key: ObjectKey) -> None:
        """Forget a pod, if it is known."""
        rank = self._ranks.pop(key, None)
        if rank is not None:
            del self._order[bisect_left(self._order, rank)]

    def after(self, rank: Rank | None) -> Rank | None:
        """Return the first pod after a place, or of all; None at the end."""
        place = 0 if rank is None else bisect_right(self._order, rank)
        return self._order[place] if place < len(self._order) else None


def priority_of(pod: JsonObject) -> int:
    """Return the priority of a pod."""
    found = (pod.get("spec") or {}).get("priority")
    return found if isinstance(found, int) else 0
