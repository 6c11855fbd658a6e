"""Waits for many descriptors, each with its callback."""

import select
from collections.abc import Callable


class Poller:
    """poll(2) with a table of callbacks."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def add(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `descriptor` can be read or its other side has closed."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, select.POLLIN)

    def remove(self, descriptor: int) -> None:
        """Forget `descriptor`; to be called before it is closed."""
        del self._callbacks[descriptor]
        self._poll.unregister(descriptor)

    def wait(self, seconds: float) -> None:
        """Wait for the next events, `seconds` at most, and call back for each."""
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if callback := self._callbacks.get(descriptor):
                callback()
