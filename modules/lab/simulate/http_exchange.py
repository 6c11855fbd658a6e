"""The client's end of a request that crosses no socket."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from beehive.clock import Timer
from beehive.runtime import Runtime
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.client.transport_errors import KubeConnectError, KubeDeadlineError, KubeTooLargeError
from modules.cloud.client.transport_errors import KubeTransportError as TransportError

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes of the longest body of a response that is no stream, as over HTTP."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_log = logging.getLogger(__name__)


def _nothing(_exchange: object) -> None:
    pass


class SimulatedExchange:
    """A request that was started (`Exchange`). The server's end calls `head`, `data`, `end` and `fail`.

    It keeps the bounds of the request: deadline, silence and length.

    Args:
        request: the request.
        listener: takes the response.
        runtime: its clock sets the deadlines.
        server: the server's name, for errors.
        ended: called once when the exchange is done, for whatever reason; it must not wait.
    """

    def __init__(
        self,
        request: ApiRequest,
        listener: ResponseListener,
        runtime: Runtime,
        server: str,
        ended: Callable[["SimulatedExchange"], None] = _nothing,
    ) -> None:
        self.request = request
        self.is_done = False
        """Whether the listener gets no more calls."""
        self._is_sent = False
        """Whether the server may have the request."""
        self._ended = ended
        self._wake_server: Callable[[], None] | None = None
        """Given with the head of a stream, see `head`."""
        self._listener = listener
        self._runtime = runtime
        self._server = server
        self._lock = threading.RLock()
        self._paused: deque[Callable[[], None]] | None = None
        """The listener's calls since `pause`; None while the response is read."""
        self._received = 0
        self._heard_at = 0.0
        self._timer: Timer = runtime.clock.after(request.timeout, self._late)

    def cancel(self) -> None:
        """End it; see `Exchange`."""
        self._finish()

    def pause(self) -> None:
        """Stop reading; see `Exchange`."""
        with self._lock:
            self._paused = deque() if self._paused is None else self._paused

    def resume(self) -> None:
        """Read on; see `Exchange`."""
        with self._lock:
            waiting, self._paused = self._paused or (), None
            self._heard_at = self._runtime.clock.monotonic()
            for tell in waiting:
                self._carry(tell)
        self._wake()

    @property
    def is_read(self) -> bool:
        """Whether the client reads more of the response."""
        return not self.is_done and self._paused is None

    def sent(self) -> None:
        """Note that the server may have the request from now on."""
        self._is_sent = True

    def head(self, head: ResponseHead, wake: Callable[[], None] | None = None) -> None:
        """Take the beginning of the response.

        Args:
            head: the beginning.
            wake: called when the response is read again, and when the exchange is done, to wake the server's end; it
                must not wait.
        """
        with self._lock:
            if self.request.stream:
                self._timer.cancel()
                self._listen_until_silence()
            self._carry(lambda: self._notify(lambda: self._listener.on_head(head)))
            self._wake_server = wake

    def data(self, data: bytes) -> None:
        """Take a piece of the body."""
        with self._lock:
            self._received += len(data)
            self._heard_at = self._runtime.clock.monotonic()
            if self._received > MAX_BODY and not self.request.stream:
                why = f"its body is longer than {MAX_BODY} bytes: ask for less, with a limit"
                self.fail(KubeTooLargeError("the API server's response is too long", self._server, why))
            else:
                self._carry(lambda: self._notify(lambda: self._listener.on_data(data)))

    def end(self) -> None:
        """Take the end of the response."""
        with self._lock:
            self._carry(self._end)

    def fail(self, error: TransportError) -> None:
        """Take the reason why there is no response, or no complete one."""
        is_unknown = self._is_sent and self.request.method not in _SAFE and not isinstance(error, KubeConnectError)
        told = error.unanswered() if is_unknown else error
        with self._lock:
            self._notify(lambda: self._listener.on_error(told))
            self._finish()

    def _end(self) -> None:
        self._notify(self._listener.on_end)
        self._finish()

    def _carry(self, tell: Callable[[], None]) -> None:
        if self._paused is None:
            tell()
        else:
            self._paused.append(tell)

    def _notify(self, call: Callable[[], None]) -> None:
        if self.is_done:
            return
        try:
            call()
        except Exception:  # noqa: BLE001 - a listener's failure must not end what else the server's thread does
            _log.exception("the listener of %s %s failed", self.request.method, self.request.path.partition("?")[0])
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            is_new, self.is_done = not self.is_done, True
            self._timer.cancel()
        if is_new:
            self._wake()
            self._ended(self)

    def _wake(self) -> None:
        if self._wake_server is not None:
            self._wake_server()

    def _late(self) -> None:
        why = f"{self.request.timeout:g} s have passed: is the server overloaded?"
        self.fail(KubeDeadlineError("no response of the API server in time", self._server, why))

    def _listen_until_silence(self) -> None:
        self._heard_at = self._runtime.clock.monotonic()
        if self.request.silence:
            self._timer = self._runtime.clock.after(self.request.silence, self._check_silence)

    def _check_silence(self) -> None:
        with self._lock:
            if self.is_done:
                return
            now, silence = self._runtime.clock.monotonic(), self.request.silence
            left = silence if self._paused is not None else self._heard_at + silence - now
            if left > 0:
                self._timer = self._runtime.clock.after(left, self._check_silence)
                return
        why = f"not a byte came for {silence:g} s: the connection is taken for broken"
        self.fail(KubeDeadlineError("a stream of the API server is silent", self._server, why))
