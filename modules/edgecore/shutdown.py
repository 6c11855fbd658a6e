"""Signals of a process that runs until it is told to stop.

The first SIGTERM or SIGINT ends it cleanly; a second one ends it at once, for the person who will not wait. The same
signal again within half a second counts as the first: `timeout`, make and terminals signal a process and its group.

The kernel may hand a signal to any thread, and Python runs handlers on the main one only when that happens to wake up;
a main thread that waits for a lock can sleep through it. So nothing is done in handlers: the interpreter writes each
signal's number into a pipe (`signal.set_wakeup_fd`), whichever thread took it, and a thread of its own reads there. It
stands outside the actor model because it must end the process even when no actor moves any more. Handlers are used
rather than a blocked signal mask, because a mask would be inherited by the containers' processes.
"""

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
"""Seconds."""


class Shutdown:
    """Waits for the signals; make it on the main thread.

    Args:
        at_once: exit status when the second signal comes.
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
        """Call `function` for another signal, on the thread that reads them; it must return at once. Main thread."""
        self._others[number] = function
        signal.signal(number, lambda *_: None)

    def wait(self) -> signal.Signals:
        """Returns when the first signal has come, and says which it was."""
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
                except Exception:  # noqa: BLE001 - or the next SIGTERM would not be heard
                    _log.exception("what %s asks for failed", signal.Signals(number).name)
        return signal.Signals(number)
