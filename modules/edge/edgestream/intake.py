"""Hands frames from the thread that reads the tunnel to the thread that serves the streams."""

import os
import threading
from collections import deque
from typing import Final

from modules.streams.frames import Frame

MOST_BYTES: Final = 256 * 1024
"""Bytes that may wait; a single larger frame may be alone. Further frames wait in the network."""

_OVERHEAD: Final = 64
"""Bytes that a frame counts in addition to its data, so that empty frames are bounded too."""


class Intake:
    """A bounded queue of frames, and a count of confirmed ones that passes it by."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._confirmed = 0
        self._rung = False
        self._released = False
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when there is something new."""
        self.closed = False
        """Set by `close`."""

    def put(self, frame: Frame) -> None:
        """Append a frame; waits while too many bytes wait, and drops it once the intake is closed."""
        size = len(frame.data) + _OVERHEAD
        with self._changed:
            while self._bytes and self._bytes + size > MOST_BYTES and not self.closed:
                self._changed.wait()
            self._frames.append(frame)
            self._bytes += size
            self._ring()

    def confirm(self, frames: int) -> None:
        """Count frames that the cloud has read."""
        with self._changed:
            self._confirmed += frames
            self._ring()

    def close(self) -> None:
        """Wake all waiting threads; any thread may call it."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            self._ring()

    def head(self) -> Frame | None:
        """Return the first frame, which stays; None without one."""
        with self._changed:
            return self._frames[0] if self._frames else None

    def drop_head(self) -> None:
        """Remove the first frame."""
        with self._changed:
            self._bytes -= len(self._frames.popleft().data) + _OVERHEAD
            self._changed.notify_all()

    def take_confirmed(self) -> int:
        """Return how many more frames the cloud has read, and reset the bell."""
        with self._changed:
            if self._rung:
                self._rung = False
                os.eventfd_read(self.bell)
            confirmed, self._confirmed = self._confirmed, 0
            return confirmed

    def release(self) -> None:
        """Close the bell; idempotent."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            if not self._released:
                self._released = True
                os.close(self.bell)

    def _ring(self) -> None:
        if not self._rung and not self._released:
            self._rung = True
            os.eventfd_write(self.bell, 1)
