"""Signals that stop the process."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue

from beehive.clock import RealClock

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.5
"""Seconds during which a repeated signal counts as one."""


class Shutdown:
    """The wait for SIGTERM or SIGINT; must be made on the main thread.

    The first signal stops the process in good order; a second one ends it immediately. The same signal again within
    half a second counts as the first one: `timeout`, make and terminals signal a process and its group.

    The kernel may deliver a signal to any thread, but Python runs handlers on the main thread only, which may be
    waiting for a lock. So the handlers do nothing: the interpreter writes each signal's number into a pipe
    (`signal.set_wakeup_fd`), whichever thread received it, and a thread reads there. This is no actor, because it has
    to end the process even if actors hang. Handlers are used instead of a blocked signal mask, because containers'
    processes would inherit the mask.

    Args:
        at_once: exit status after the second signal.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._now = RealClock().monotonic
        self._first: SimpleQueue[signal.Signals] = SimpleQueue()
        self._others: dict[int, Callable[[], None]] = {}
        self._pipe, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._read, name="signals", daemon=True).start()

    def on(self, number: signal.Signals, function: Callable[[], None]) -> None:
        """Call `function` for another signal, on the thread that reads signals; it must not block. Call this on
        the main thread.
        """
        self._others[number] = function
        signal.signal(number, lambda *_: None)

    def wait(self) -> signal.Signals:
        """Wait for the first signal and return it."""
        return self._first.get()

    def _read(self) -> None:
        first = self._next()
        at = self._now()
        self._first.put(first)
        while self._next() is first and self._now() - at < _SAME_SIGNAL:
            pass
        os._exit(self._at_once)

    def _next(self) -> signal.Signals:
        while (number := os.read(self._pipe, 1)[0]) not in SIGNALS:
            if number in self._others:
                try:
                    self._others[number]()
                except Exception:  # noqa: BLE001 - or the next SIGTERM would not be read
                    _log.exception("what %s asks for failed", signal.Signals(number).name)
        return signal.Signals(number)
