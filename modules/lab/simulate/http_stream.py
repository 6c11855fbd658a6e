"""A watch that crosses no socket: the thread that brings a change passes it on."""

import logging
import threading
from collections.abc import Callable, Iterator

from beehive.clock import Clock, Timer
from modules.cloud.client.transport import ResponseHead
from modules.lab.simulate.http_exchange import SimulatedExchange

_log = logging.getLogger(__name__)


class Streaming:
    """The pieces of a stream, passed on while its client reads: on the thread that has changed an object, on the
    clock's, or on the client's when it reads again; one at a time.

    Args:
        content_type: of the pieces.
        steps: yields them, see `Stream.steps`.
        done: called at the end.
        exchange: the client's end.
        clock: wakes it when nothing changes.
    """

    def __init__(
        self,
        content_type: str,
        steps: Callable[[Callable[[], None]], Iterator[bytes | float]],
        done: Callable[[], object],
        exchange: SimulatedExchange,
        clock: Clock,
    ) -> None:
        self._content_type = content_type
        self._steps = steps(self._wake)
        self._done = done
        self._exchange = exchange
        self._clock = clock
        self._lock = threading.Lock()
        self._is_running = self._is_woken = self._is_over = False
        self._timer: Timer | None = None
        self._timer_due = 0.0

    def begin(self) -> None:
        """Begin the response."""
        self._exchange.head(ResponseHead(200, (("content-type", self._content_type),)), self._wake)
        self._wake()

    def _wake(self) -> None:
        """Go on, unless another thread does, which then goes on again."""
        with self._lock:
            self._is_woken = True
            if self._is_running:
                return
            self._is_running = True
        while self._is_wanted():
            self._resume()

    def _is_wanted(self) -> bool:
        with self._lock:
            self._is_running, self._is_woken = self._is_woken, False
            return self._is_running

    def _resume(self) -> None:
        if self._is_over:
            return
        try:
            while self._exchange.is_read:
                step = next(self._steps, None)
                if step is None:
                    self._exchange.end()
                elif isinstance(step, bytes):
                    self._exchange.data(step)
                else:
                    self._wake_within(step)
                    return
        except Exception:  # noqa: BLE001 - whoever has changed an object must not fail for one who watches
            _log.exception("watch of %s failed", self._exchange.request.path.partition("?")[0])
            self._exchange.end()
        if self._exchange.is_done:
            self._end()

    def _wake_within(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if self._timer is not None and self._timer.active and self._timer_due <= due:
            return
        self._stop_timer()
        self._timer_due = due
        self._timer = self._clock.after(seconds, self._wake)

    def _end(self) -> None:
        self._is_over = True
        self._stop_timer()
        self._done()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
