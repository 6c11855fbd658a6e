"""Queues method calls from other threads, and runs them on the device's own thread."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_WAITING: Final = 16
"""Maximum number of queued calls per device."""


class MethodRefused(Exception):  # noqa: N818 - an answer to the caller
    """The call failed, or was not run; the message gives the reason, and whether the device may have acted."""


class _Call:
    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.ended = threading.Event()
        self.error = ""


class MethodCalls:
    """A first-in, first-out queue of method calls for one device.

    Args:
        wake: wakes the device's thread, which then calls `carry_out`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[_Call] = deque()

    def call(self, work: Callable[[], None], seconds: float) -> None:
        """Run a function on the device's thread and wait until it returns. A call that has not started when the time is
        up is dropped.

        Args:
            work: the function to run.
            seconds: how long to wait.

        Raises:
            MethodRefused: the queue is full, the function raised an exception, or the time is up.
        """
        call = _Call(work)
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                raise MethodRefused(f"the device already has {MOST_WAITING} calls waiting; try again later")
            self._waiting.append(call)
        self._wake()
        if not call.ended.wait(seconds):
            with self._lock:
                if call in self._waiting:
                    self._waiting.remove(call)
                    raise MethodRefused(f"the device was not ready within {seconds:g} s; the method was not called")
            raise MethodRefused(f"the method has not returned within {seconds:g} s; it may still take effect")
        if call.error:
            raise MethodRefused(call.error)

    def carry_out(self) -> None:
        """Run all queued calls. The device's thread calls it while the device is open; exceptions go to the callers."""
        while True:
            with self._lock:
                call = self._waiting.popleft() if self._waiting else None
            if call is None:
                return
            try:
                call.work()
            except Exception as error:  # noqa: BLE001 - a driver may raise anything
                call.error = f"{type(error).__name__}: {error}"
            call.ended.set()
