"""Events of the demo, in one queue.

A signal is only an event: its handler raises nothing, so Ctrl-C at any moment leaves the demo in a state where it
can clean up. The queue is a SimpleQueue because a signal handler may write to it.
"""

import queue
import signal
from types import FrameType
from typing import NamedTuple

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_MOMENT = 0.03
"""Seconds between two checks."""


class ExampleChanged(NamedTuple):
    """A pod or workload of the cloud has changed."""

    kind: str
    obj: JsonObject
    deleted: bool


class Ended(NamedTuple):
    """The demo received a signal to end."""

    signal: signal.Signals


class Tick(NamedTuple):
    """No event came for a while."""


Event = ExampleChanged | Ended | Tick


class Events:
    """The queue of events. It must be made on the main thread, because it sets the signal handlers.

    Args:
        clock: clock of all waits.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.asked_to_end = 0
        """Number of signals to end; after the second one waits are cut short."""
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def put(self, event: Event) -> None:
        """Add an event; any thread may call it."""
        self._queue.put(event)

    def next(self, seconds: float) -> Event:
        """Return the next event; a `Tick` if none comes for that many seconds."""
        try:
            return self._queue.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return Tick()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the handler's signature
        self.asked_to_end += 1
        self._queue.put(Ended(signal.Signals(number)))


class Deadline:
    """A limit of a loop that polls a process or a file.

    It passes after some seconds, or with the next signal. Events that come meanwhile are dropped.

    Args:
        events: events of the demo.
        seconds: time limit.
    """

    def __init__(self, events: Events, seconds: float) -> None:
        self._events = events
        self._deadline = events.clock.monotonic() + seconds
        self._asked_before = events.asked_to_end

    def is_open(self) -> bool:
        """Wait a moment; return False once the deadline has passed."""
        over = self._events.clock.monotonic() > self._deadline or self._events.asked_to_end > self._asked_before
        if not over:
            self._events.next(_MOMENT)
        return not over
