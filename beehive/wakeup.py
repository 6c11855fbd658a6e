"""Wakes a thread that waits for descriptors."""

import os
import threading


class Wakeup:
    """An eventfd that is readable from `wake` until `clear`. Any thread may use it, also after its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_set = self._is_closed = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def wake(self) -> None:
        """Make the descriptor readable. It is written once until it is cleared: each write costs a thread switch."""
        with self._lock:
            if not self._is_set and not self._is_closed:
                self._is_set = True
                os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Make the descriptor unreadable until the next `wake`."""
        with self._lock:
            if self._is_set and not self._is_closed:
                self._is_set = False
                os.eventfd_read(self._descriptor)

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._descriptor)
