"""The grace periods that run now, of containers that end: each can be shortened meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beehive import Clock, Timer
from edged.pods.effective_grace_period import SHORTEST_STOP_SECONDS
from edged.pods.model import PodUid

Listener = Callable[[], None]


class GracePeriod:
    """The grace period of one container.

    It can be shortened: a pod that is ending may be deleted again with less time (`kubectl delete --grace-period=1`
    after a plain deletion), or by force. A kubelet cancels the worker then and restarts it, hooks included; here the
    hook or stop that is under way goes on, and ends earlier. Thread-safe.

    Args:
        clock: the monotonic time.
        seconds: its length, from now.
    """

    def __init__(self, clock: Clock, seconds: int) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begin = clock.monotonic()
        self._seconds = seconds
        self._listeners: dict[object, Listener] = {}

    def stop_timeout(self) -> int:
        """Return the time limit for StopContainer in seconds: the rest of the grace period, but at least 2 s, so that a
        container has a chance to end by itself (kubelet's minimumGracePeriodInSeconds). Elapsed time counts in whole
        seconds.
        """
        with self._lock:
            return max(self._seconds - int(self._clock.monotonic() - self._begin), SHORTEST_STOP_SECONDS)

    @property
    def remaining(self) -> float:
        """Seconds until the end, negative afterwards."""
        with self._lock:
            return self._begin + self._seconds - self._clock.monotonic()

    def shorten(self, seconds: int) -> None:
        """Let it end in so many seconds from now, unless it ends earlier anyway."""
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
        """Call the listener, which must not block, whenever the grace period is shortened in this context."""
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
        """Call `end` when the grace period is over in this context; on the clock's thread, maybe more than once."""
        timers: list[Timer] = []

        def arm() -> None:
            timers.append(self._clock.after(self.remaining, end))

        try:
            with self.listening(arm):
                arm()  # after the listener is there: it may be shortened at this moment
                yield
        finally:
            for timer in timers:
                timer.cancel()


class GracePeriods:
    """The grace periods that run now, by pod. Thread-safe.

    It also keeps an upper limit for later stops: a worker may not have reached the stop of a container yet
    when the pod's grace period is shortened.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[GracePeriod, PodUid] = {}
        self._most: dict[PodUid, int] = {}

    @contextmanager
    def begin(self, uid: PodUid, seconds: int) -> Iterator[GracePeriod]:
        """Give a container of this pod so many seconds to end."""
        with self._lock:
            grace_period = GracePeriod(self._clock, min(seconds, self._most.get(uid, seconds)))
            self._running[grace_period] = uid
        try:
            yield grace_period
        finally:
            with self._lock:
                del self._running[grace_period]

    def shorten(self, uid: PodUid, seconds: int) -> None:
        """Limit the containers of this pod that end now or later to so many seconds from now."""
        with self._lock:
            self._most[uid] = min(seconds, self._most.get(uid, seconds))
            concerned = [grace_period for grace_period, about in self._running.items() if about == uid]
        for grace_period in concerned:
            grace_period.shorten(seconds)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop the limit of a pod that is removed from the node."""
        with self._lock:
            self._most.pop(uid, None)
