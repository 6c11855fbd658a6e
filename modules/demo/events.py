"""Everything the demo waits for, in one queue.

A signal is an event and nothing else: its handler raises nothing, so Ctrl-C at any moment finds the demo in a state
from which it can clean up. The queue is a SimpleQueue because that one may be written from a signal handler.
"""

import queue
import signal
from types import FrameType
from typing import NamedTuple

from beehive.clock import Clock
from modules.edgecontroller.kinds import JsonObject

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_MOMENT = 0.03
"""Seconds between two looks."""


class PodChanged(NamedTuple):
    """The cloud has another state of a pod."""

    pod: JsonObject
    deleted: bool


class Ended(NamedTuple):
    """Somebody asked the demo to end."""

    signal: signal.Signals


class Tick(NamedTuple):
    """Nothing happened for a while."""


Event = PodChanged | Ended | Tick


class Events:
    """The queue, and how often somebody has asked to end. Make it on the main thread: it takes the signals.

    Args:
        clock: says how long is waited.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.asked_to_end = 0
        """Times that somebody has asked the demo to end; who asks twice does not want to wait."""
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def put(self, event: Event) -> None:
        """From any thread."""
        self._queue.put(event)

    def next(self, seconds: float) -> Event:
        """The next event; a `Tick` when there is none for that long."""
        try:
            return self._queue.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return Tick()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the handler's signature
        self.asked_to_end += 1
        self._queue.put(Ended(signal.Signals(number)))


class Patience:
    """How long one waits for something that can only be looked at again and again (a process, a file).

    It ends at a deadline, and when somebody asks to end while it lasts. What happens meanwhile is not looked at.

    Args:
        events: of the demo.
        seconds: how long at most.
    """

    def __init__(self, events: Events, seconds: float) -> None:
        self._events = events
        self._deadline = events.clock.monotonic() + seconds
        self._asked_before = events.asked_to_end

    def lasts(self) -> bool:
        """Lets a moment pass; False when it is over."""
        over = self._events.clock.monotonic() > self._deadline or self._events.asked_to_end > self._asked_before
        if not over:
            self._events.next(_MOMENT)
        return not over
