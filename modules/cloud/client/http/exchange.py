"""One request on its way, and its response."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.client.transport_errors import KubeTooLargeError, KubeTransportError

if TYPE_CHECKING:
    from beehive.clock import Timer
    from modules.cloud.client.credentials.source import RequestCredentials

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes of the longest body of a response that is no stream."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_log = logging.getLogger(__name__)


class ExchangeTransport(Protocol):
    """A transport of exchanges."""

    @property
    def server(self) -> str:
        """The server's URL, for errors."""

    def refuse(self, credentials: "RequestCredentials") -> bool:
        """Note credentials that were answered with 401; return whether there may be others."""

    def notify(self, call: Callable[[], None]) -> None:
        """Make a call of the listener, after the calls before."""

    def on_changed(self, exchange: "HttpExchange") -> None:
        """Note that an exchange was cancelled or resumed; on any thread."""


class HttpExchange:
    """A request that was started; `cancel`, `pause` and `resume` may be called on any thread.

    Args:
        request: the request.
        listener: takes the response.
        transport: carries it.
    """

    def __init__(self, request: ApiRequest, listener: ResponseListener, transport: ExchangeTransport) -> None:
        self.request = request
        self._listener = listener
        self._transport = transport
        self.is_cancelled = False
        self.is_paused = False
        self.is_over = False
        """Whether the listener has had the end or an error, or gets no more calls."""
        self.has_head = False
        self.is_sent = False
        """Whether a byte of it was given to a connection that is open."""
        self.is_repeated = False
        """Whether it was sent again after a kept connection had been closed."""
        self.is_renewed = False
        """Whether it was sent again with new credentials."""
        self.is_withheld = False
        """Whether the response, a 401, is not for the listener, as the request is repeated with new credentials."""
        self.credentials: RequestCredentials | None = None
        """The credentials of its last attempt."""
        self.timers: list[Timer] = []
        """Deadlines, cancelled at the end."""
        self.heard_at = 0.0
        """Monotonic seconds of the last byte of a stream, or of its going on."""
        self.is_timed = False
        """Whether its silence is limited."""
        self._received = 0

    @property
    def is_safe(self) -> bool:
        """Whether the request changes nothing."""
        return self.request.method in _SAFE

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be told to the listener."""
        return self.is_over or self.is_cancelled

    def cancel(self) -> None:
        """End it; see `Exchange`."""
        self.is_cancelled = True
        self._transport.on_changed(self)

    def pause(self) -> None:
        """Stop reading; see `Exchange`."""
        self.is_paused = True

    def resume(self) -> None:
        """Read on; see `Exchange`."""
        self.is_paused = False
        self._transport.on_changed(self)

    def head(self, head: ResponseHead) -> None:
        """Take the beginning of the response."""
        if head.status == 401 and not self.is_renewed and self.credentials is not None:
            self.is_withheld = self._transport.refuse(self.credentials)
        if not self.is_withheld:
            self.has_head = True
            self._notify(partial(self._listener.on_head, head))

    def data(self, data: bytes) -> None:
        """Take a piece of the body.

        Raises:
            KubeTooLargeError: the body is longer than `MAX_BODY` and no stream.
        """
        self._received += len(data)
        if self._received > MAX_BODY and (self.is_withheld or not self.request.stream):
            why = f"its body is longer than {MAX_BODY} bytes: ask for less, with a limit"
            raise KubeTooLargeError("the API server's response is too long", self._transport.server, why)
        if not self.is_withheld:
            self._notify(partial(self._listener.on_data, data))

    def end(self) -> None:
        """Take the end of the response."""
        if not self.is_withheld:
            self._finish()
            self._notify(self._listener.on_end)
            self.is_over = True

    def fail(self, error: KubeTransportError) -> None:
        """Take the reason why there is no response."""
        if not self.is_done:
            self._finish()
            self._notify(partial(self._listener.on_error, error))
            self.is_over = True

    def begin_again(self) -> None:
        """Forget the response that was withheld, or did not come."""
        self.is_withheld = self.is_sent = False
        self._received = 0

    def limit(self, timer: "Timer") -> None:
        """Replace the deadline."""
        self._finish()
        self.timers.append(timer)

    def _finish(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def drop(self) -> None:
        """Tell the listener nothing more."""
        self._finish()
        self.is_over = True

    def _notify(self, call: Callable[[], None]) -> None:
        if not self.is_done:
            self._transport.notify(partial(self._make, call))

    def _make(self, call: Callable[[], None]) -> None:
        if self.is_cancelled:
            return
        try:
            call()
        except Exception:  # noqa: BLE001 - a listener's failure must not end the other requests
            _log.exception("the listener of %s %s failed", self.request.method, self.request.path.partition("?")[0])
            self.cancel()
