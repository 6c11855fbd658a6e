"""One thread that waits for the sockets of all servers; it exists while there is one."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE

T = TypeVar("T")


class SelectorThread:
    """A thread that calls functions when sockets are ready. Without a ready socket it does not wake.

    `begin`, `end` and `call` are for all threads; the other methods for functions that this thread calls. Those must
    not block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._calls: deque[Callable[[], None]] = deque()
        self._selector: selectors.BaseSelector
        self._waking: socket.socket
        self._woken: socket.socket
        self._closing: ExitStack

    def begin(self) -> None:
        """Register a user; the first starts the thread. Raises OSError when the process may open no more files."""
        with self._lock:
            if not self._users:
                self._start()
            self._users += 1

    def end(self) -> None:
        """Undo one `begin`; the last one waits for the end of the thread."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            thread, self._thread = self._thread, None
            self._wake()
            if thread is not None:
                thread.join()
            self._closing.close()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Call a function on the thread, which has a user; return its result as a future."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - whoever asked gets it
                future.set_exception(error)

        self._calls.append(run)
        self._wake()
        return future

    def watch(self, watched: socket.socket, events: int, ready: Callable[[int], None]) -> None:
        """Call `ready` with the events that a socket is ready for, from now on; with no events, never again."""
        if watched.fileno() not in self._selector.get_map():
            if events:
                self._selector.register(watched, events, ready)
        elif events:
            self._selector.modify(watched, events, ready)
        else:
            self._selector.unregister(watched)

    def _start(self) -> None:
        with ExitStack() as closing:
            self._waking, self._woken = map(closing.enter_context, socket.socketpair())
            self._waking.settimeout(0.0)
            self._woken.settimeout(0.0)
            self._selector = closing.enter_context(selectors.DefaultSelector())
            self._selector.register(self._woken, READ, self._drain)
            self._thread = threading.Thread(target=self._run, name="socket-activation", daemon=True)
            self._thread.start()
            self._closing = closing.pop_all()

    def _wake(self) -> None:
        with suppress(OSError):  # it has been woken already, or has ended
            self._waking.send(b"\0")

    def _drain(self, _: int) -> None:
        self._woken.recv(4096)

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            for key, events in self._selector.select():
                if self._is_watched(key):
                    _carry_out(key.data, events)
            while self._calls:
                self._calls.popleft()()

    def _is_watched(self, key: selectors.SelectorKey) -> bool:
        """Return whether no function called since the wait has ended the watch of this socket, or closed it."""
        now = self._selector.get_map().get(key.fd)
        return now is not None and now.fileobj is key.fileobj


def _carry_out(function: Callable[..., None], *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception:  # noqa: BLE001 - one connection ends no other
        _log.exception("a connection to a socket of this node could not be handled")


SHARED: Final = SelectorThread()
"""The thread of all servers of this process."""
