"""The order of threads at what only one may use: the database of a cloud, the logs of pods."""

import threading
from collections import deque


class Turns:
    """A lock that goes to the thread that has waited longest.

    With a plain lock, a thread that gives it back and takes it again immediately keeps it: edgecontroller, busy with a
    crowd of nodes, had one transaction after the other while the API server waited for 20 s, and with it the nodes'
    registrations.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()
        """A lock of each thread that waits, released when it is its turn."""

    @property
    def are_awaited(self) -> bool:
        """Whether a thread waits for its turn."""
        return bool(self._waiting)

    def locked(self) -> bool:
        """Return whether a thread holds the lock."""
        return self._is_taken

    def acquire(self, timeout: float = -1) -> bool:
        """Wait for the turn, up to `timeout` seconds if that is not negative, and return whether it has come."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        if gate.acquire(timeout=timeout):
            return True
        with self._lock:
            if gate not in self._waiting:
                return True  # it has come since
            self._waiting.remove(gate)
            return False

    def release(self) -> None:
        """End the turn; the thread that has waited longest has the next one."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False
