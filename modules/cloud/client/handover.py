"""The way from a transport's thread to a module's."""

from collections import deque
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 16
"""Functions that are called before other items of the module's inbox have their turn."""


class Handover:
    """Calls functions on a module's thread, in order. Those that come before their turn share an item of its inbox.

    Args:
        call_soon: calls a function on the module's thread, from any thread.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_announced = False
        """Whether `_take` is in the inbox. It is cleared before functions are taken, so none is left behind."""

    def post(self, function: Callable[[], None]) -> None:
        """Call a function on the module's thread; from any thread."""
        self._waiting.append(function)
        self._announce()

    def _announce(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            self._call_soon(self._take)

    def _take(self) -> None:
        self._is_announced = False
        for _ in range(min(len(self._waiting), AT_ONCE)):
            self._waiting.popleft()()
        if self._waiting:
            self._announce()
