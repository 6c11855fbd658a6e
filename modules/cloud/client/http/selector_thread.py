"""A thread that waits for sockets, and for calls from other threads."""

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)

_log = logging.getLogger(__name__)


class SocketUser(Protocol[K_contra]):
    """The work of a `SelectorThread`, done on it. Nothing may wait."""

    def on_socket(self, key: K_contra, happened: int) -> None:
        """Take the selector's events for the key of a watched socket."""

    def end_turn(self) -> None:
        """Act on the events and calls of a turn."""

    def end_all(self) -> None:
        """Act on the end of the thread."""


class SelectorThread(Generic[K]):
    """A thread that starts with the first posted call.

    Args:
        name: of the thread.
        user: does its work.
    """

    def __init__(self, name: str, user: SocketUser[K]) -> None:
        self._name = name
        self._user = user
        self._lock = threading.Lock()
        self._posted: list[Callable[[], None]] = []
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._watched: dict[K, tuple[socket.socket, int]] = {}
        with ExitStack() as closing:
            self._selector = closing.enter_context(selectors.DefaultSelector())
            self._waker, self._woken = map(closing.enter_context, socket.socketpair())
            for own in (self._waker, self._woken):
                own.settimeout(0.0)
            self._selector.register(self._woken, selectors.EVENT_READ)
            self._closing = closing.pop_all()

    def post(self, call: Callable[[], None]) -> bool:
        """Call a function on the thread; return False if that has ended. Callable on any thread."""
        with self._lock:
            if self._is_closed:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            is_awaited = bool(self._posted)
            self._posted.append(call)
        if not is_awaited:  # otherwise the thread has been woken, and has not taken the calls yet
            self._wake()
        return True

    def watch(self, key: K, watched: socket.socket | None, wanted: int) -> None:
        """Wait for a socket's events, in place of the events that were wanted before; 0: no events."""
        before = self._watched.get(key)
        after = (watched, wanted) if watched is not None and wanted else None
        if before == after:
            return
        if before is not None and after is not None and before[0] is after[0]:
            self._selector.modify(after[0], wanted, key)
        else:
            if before is not None:
                self._selector.unregister(before[0])
            if after is not None:
                self._selector.register(after[0], wanted, key)
        if after is None:
            del self._watched[key]
        else:
            self._watched[key] = after

    def close(self) -> None:
        """End the thread, which may have failed; not to be called on it. Idempotent."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake()
        if thread is not None:
            thread.join()
        self._closing.close()

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"!")

    def _run(self) -> None:
        try:
            while not self._is_closed:
                for key, happened in self._selector.select():
                    if key.data is None:
                        self._clear_waker()
                    else:
                        self._call(partial(self._user.on_socket, key.data, happened))
                self._call_posted()
                self._call(self._user.end_turn)
        finally:
            with self._lock:
                self._is_closed = True
            self._call_posted()
            self._call(self._user.end_all)

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001 - whatever fails, the thread serves the others
            _log.exception("the thread %s goes on after a failure", self._name)

    def _call_posted(self) -> None:
        with self._lock:
            posted, self._posted = self._posted, []
        for call in posted:
            self._call(call)

    def _clear_waker(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
