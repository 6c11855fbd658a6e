"""The memory for bytes of all streams that wait for their clients."""

import threading
from typing import Final

QUEUE_BYTES: Final = 256 * 1024
"""Bytes of a stream that wait for its client. Further ones hold up the node's tunnel, which has no flow control."""
LEAST_BYTES: Final = 32 * 1024
"""The same when the streams together take `MOST_BYTES`: one frame of a node."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all streams above which each has room for a frame only, so that 2,000 that nobody reads take no more."""


class QueueMemory:
    """The number of bytes that wait, over all tunnels. Thread-safe.

    Args:
        most: bytes above which a stream has `LEAST_BYTES` only.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self.used = 0
        """Bytes that wait, with what their frames take."""

    def add(self, size: int) -> None:
        """Count bytes that wait; a negative number when they leave."""
        with self._lock:
            self.used += size

    @property
    def of_stream(self) -> int:
        """Bytes that a stream may let wait now."""
        return QUEUE_BYTES if self.used < self._most else LEAST_BYTES
