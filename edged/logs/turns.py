"""The order in which logs are read."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class ReadingTurns:
    """Turns to read a log, one at a time; the others wait in their order. Thread-safe.

    Lines are read and selected by the interpreter, which every other thread of edgecore needs as well: with 32 readers
    at a time each of these would wait for tens of milliseconds at each of its steps.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()
        """A lock of each reader that waits, released when it has the turn."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the turn in the context."""
        self._acquire()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Be without the turn in the context, and have it again afterwards."""
        self._give()
        try:
            yield
        finally:
            self._acquire()

    def pass_on(self) -> None:
        """Let the waiting readers have their turns before this one goes on."""
        with self._lock:
            if not self._waiting:
                return
        with self.pause():
            pass

    def _acquire(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()

    def _give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False
