"""Signals of a process that runs until it is told to stop.

The first SIGTERM or SIGINT ends it cleanly; a second one ends it at once, for the person who will not wait. Handlers
are used rather than a blocked signal mask, because a mask would be inherited by the containers' processes.
"""

import os
import signal
import threading
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Waits for the signals; make it on the main thread.

    Args:
        at_once: exit status when the second signal comes.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._asked = threading.Event()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def wait(self) -> None:
        """Return when the first signal has come."""
        self._asked.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the handler's signature
        if self._asked.is_set():
            os._exit(self._at_once)
        self._asked.set()
