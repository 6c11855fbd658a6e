"""Runs blocking calls beside a module's thread: a few at a time, and a few more in a queue."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from beehive.module import Module

T = TypeVar("T")


class BoundedCalls:
    """The calls of functions on threads of their own, for one module.

    Args:
        module: the results are handled on its thread.
        parallel: largest number of calls at a time.
        waiting: largest number of calls in the queue.
    """

    def __init__(self, module: Module, parallel: int, waiting: int) -> None:
        self._module = module
        self._parallel = parallel
        self._most_waiting = waiting
        self._running = 0
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def submit(self, work: Callable[[], T], then: Callable[[T], None]) -> bool:
        """Call a function now or soon; return False if too many wait already.

        Args:
            work: may block; must not touch the module's state. Its exception is the module's failure.
            then: called with its result on the module's thread.
        """
        if self._running < self._parallel:
            self._begin(work, then)
        elif len(self._waiting) < self._most_waiting:
            self._waiting.append((work, then))
        else:
            return False
        return True

    def _begin(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        self._running += 1

        def run() -> None:
            try:
                end = partial(then, work())
            except Exception as error:  # noqa: BLE001 - of any kind
                end = partial(_fail, error)
            self._module.call_soon(end)
            self._module.call_soon(self._ended)

        self._module.runtime.call(run, name=f"{self._module.name}/call")

    def _ended(self) -> None:
        self._running -= 1
        if self._waiting:
            self._begin(*self._waiting.popleft())


def _fail(error: Exception) -> None:
    raise error
