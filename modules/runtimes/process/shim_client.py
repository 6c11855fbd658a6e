"""edgecore's side of the control connection to one shim."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from modules.runtimes.engine.errors import ShimGoneError
from modules.runtimes.shim.protocol import receive, send

Answer = dict[str, Any]


class ShimClient:
    """A client of one shim, which passes its events on.

    Any thread may send requests; only the `ProcessWatcher` calls `read`.

    Args:
        sock: the connection.
        on_event: called with each event.
        on_gone: called when the shim has ended.
    """

    def __init__(self, sock: socket.socket, on_event: Callable[[Answer], None], on_gone: Callable[[], None]) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._on_event = on_event
        self._on_gone = on_gone
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor to wait on; negative once closed."""
        return self._sock.fileno()

    def begin(self, operation: str, descriptors: list[int] | None = None, **fields: Any) -> tuple[int, Future[Answer]]:
        """Send a request; return its number and the future answer. Raises ShimGoneError."""
        request = next(self._ids)
        answer: Future[Answer] = Future()
        with self._lock:
            self._waiting[request] = answer
            try:
                send(self._sock, {"id": request, "op": operation, **fields}, descriptors)
            except OSError as error:
                del self._waiting[request]
                raise ShimGoneError("ask the shim", error.strerror or str(error)) from error
            except BaseException:
                del self._waiting[request]
                raise
        return request, answer

    def read(self) -> bool:
        """Handle all packets that have arrived; return False when the shim has closed the connection."""
        while True:
            try:
                received = receive(self._sock)
            except BlockingIOError:
                return True
            except OSError:
                received = None
            if received is None:
                return False
            self._deal_with(received[0])

    def gone(self) -> None:
        """Close, fail the waiting requests, and report that the shim has ended."""
        self.close()
        self._on_gone()

    def close(self) -> None:
        """Close without a report: the container goes on."""
        with self._lock:
            self._sock.close()
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(ShimGoneError("wait for the shim", "the connection has ended"))

    def _deal_with(self, message: Answer) -> None:
        if "event" in message:
            self._on_event(message)
            return
        with self._lock, contextlib.suppress(KeyError):
            self._waiting.pop(message["id"]).set_result(message)
