"""Runs blocking calls beside a module's thread: a few at a time, and a few more in a queue."""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from beehive.module import Module

T = TypeVar("T")


class BoundedCalls:
    """The calls of functions on threads of their own, for one module.

    Those who share them have turns: the next call is of the one whose last turn is the longest ago.

    Args:
        module: the results are handled on its thread.
        parallel: largest number of calls at a time.
        waiting: largest number of calls in the queue.
        of_share: largest number of calls of one share at a time, which may have half of the queue then; 0: all.
    """

    def __init__(self, module: Module, parallel: int, waiting: int, of_share: int = 0) -> None:
        self._module = module
        self._parallel = parallel
        self._most_waiting = waiting
        self._of_share = of_share or parallel
        self._waiting_of_share = waiting // 2 if of_share else waiting
        self._running = Counter[str]()
        """By share."""
        self._queues: dict[str, deque[tuple[Callable[[], Any], Callable[[Any], None]]]] = {}
        """By share, in the order of their turns."""
        self._waiting = 0

    def submit(self, work: Callable[[], T], then: Callable[[T], None], share: str = "") -> bool:
        """Call a function now or soon; return False if too many wait already.

        Args:
            work: may block; must not touch the module's state. Its exception is the module's failure.
            then: called with its result on the module's thread.
            share: of whom the call is.
        """
        if self._running.total() < self._parallel and self._running[share] < self._of_share:
            self._begin(share, work, then)
        elif self._waiting < self._most_waiting and len(self._queues.get(share, ())) < self._waiting_of_share:
            self._queues.setdefault(share, deque()).append((work, then))
            self._waiting += 1
        else:
            return False
        return True

    def _begin(self, share: str, work: Callable[[], T], then: Callable[[T], None]) -> None:
        self._running[share] += 1

        def run() -> None:
            try:
                end = partial(then, work())
            except Exception as error:  # noqa: BLE001 - of any kind
                end = partial(_fail, error)
            self._module.call_soon(end)
            self._module.call_soon(partial(self._ended, share))

        self._module.runtime.call(run, name=f"{self._module.name}/call")

    def _ended(self, share: str) -> None:
        self._running[share] -= 1
        if not self._running[share]:
            del self._running[share]
        following = next((each for each in self._queues if self._running[each] < self._of_share), None)
        if following is None:
            return
        queue = self._queues.pop(following)
        work, then = queue.popleft()
        self._waiting -= 1
        if queue:
            self._queues[following] = queue
        self._begin(following, work, then)


def _fail(error: Exception) -> None:
    raise error
