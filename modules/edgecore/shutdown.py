"""Signals of a process that runs until it is told to stop.

The first SIGTERM or SIGINT ends it cleanly; a second one ends it at once, for the person who will not wait. The same
signal again within half a second counts as the first: `timeout`, make and terminals signal a process and its group.

Handlers are used rather than a blocked signal mask, because a mask would be inherited by the containers' processes. A
handler may interrupt another one anywhere, so it takes no lock: an Event's `set`, interrupted by a second `set`, would
wait for itself. A SimpleQueue may be written from handlers.
"""

import os
import signal
from queue import SimpleQueue
from types import FrameType
from typing import NamedTuple

from beehive.clock import RealClock

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.5
"""Seconds."""


class _Asked(NamedTuple):
    signal: signal.Signals
    at: float


class Shutdown:
    """Waits for the signals; make it on the main thread.

    Args:
        at_once: exit status when the second signal comes.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._now = RealClock().monotonic
        self._first: _Asked | None = None
        self._queue: SimpleQueue[signal.Signals] = SimpleQueue()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def wait(self) -> signal.Signals:
        """Returns when the first signal has come, and says which it was."""
        return self._queue.get()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the handler's signature
        asked, first = _Asked(signal.Signals(number), self._now()), self._first
        if first is None:
            self._first = asked
            self._queue.put(asked.signal)
        elif asked.signal is not first.signal or asked.at - first.at > _SAME_SIGNAL:
            os._exit(self._at_once)
