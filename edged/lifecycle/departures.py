"""The grace periods that have begun. One that has begun can still be shortened: a pod that is ending is deleted once
more, with less time (`kubectl delete --grace-period=1` after a plain one), or by force.

A kubelet cancels the worker in such a case and lets it begin anew, hooks included. Here what is under way goes on, and
ends earlier.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beehive import Clock
from edged.pods.model import PodUid
from edged.pods.termination import SHORTEST_STOP_SECONDS

Listener = Callable[[], None]


class Departure:
    """The grace period of one container. Thread-safe."""

    def __init__(self, clock: Clock, seconds: int) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begin = clock.monotonic()
        self._seconds = seconds
        self._listeners: dict[object, Listener] = {}

    def left(self) -> int:
        """The time limit for StopContainer in seconds: what is left, and at least 2 s, so that a container has a chance
        to end by itself (kubelet's minimumGracePeriodInSeconds). What was spent counts in whole seconds.
        """
        with self._lock:
            return max(self._seconds - int(self._clock.monotonic() - self._begin), SHORTEST_STOP_SECONDS)

    @property
    def remaining(self) -> float:
        """Seconds until it is over, below zero afterwards."""
        with self._lock:
            return self._begin + self._seconds - self._clock.monotonic()

    def shorten(self, seconds: int) -> None:
        """It is over in so many seconds from now; without effect when it is anyway."""
        with self._lock:
            now = self._clock.monotonic()
            if now + seconds >= self._begin + self._seconds:
                return
            self._begin, self._seconds = now, seconds
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener()

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Call the listener whenever it is shortened meanwhile; it must not block."""
        key = object()
        with self._lock:
            self._listeners[key] = listener
        try:
            yield
        finally:
            with self._lock:
                del self._listeners[key]

    @contextmanager
    def limiting(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` when it is over; on the clock's thread, maybe more than once."""

        def arm() -> None:
            timers.append(self._clock.after(self.remaining, end))

        timers = [self._clock.after(self.remaining, end)]
        try:
            with self.listening(arm):
                yield
        finally:
            for timer in timers:
                timer.cancel()


class Departures:
    """The grace periods that run now, by pod, and what those that are about to begin may have at most: a worker that
    has been given its job may not have begun one yet when it is shortened. Thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[Departure, PodUid] = {}
        self._most: dict[PodUid, int] = {}

    @contextmanager
    def begin(self, uid: PodUid, seconds: int) -> Iterator[Departure]:
        """A container of this pod gets so long to end."""
        with self._lock:
            departure = Departure(self._clock, min(seconds, self._most.get(uid, seconds)))
            self._running[departure] = uid
        try:
            yield departure
        finally:
            with self._lock:
                del self._running[departure]

    def shorten(self, uid: PodUid, seconds: int) -> None:
        """All containers of this pod that are ending get so long from now at most, and so do those that begin later."""
        with self._lock:
            self._most[uid] = min(seconds, self._most.get(uid, seconds))
            concerned = [departure for departure, about in self._running.items() if about == uid]
        for departure in concerned:
            departure.shorten(seconds)

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        with self._lock:
            self._most.pop(uid, None)
