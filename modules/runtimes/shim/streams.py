"""The streams of a container: its output goes to the log and the attached clients, their input to the container."""

import os
from collections.abc import Iterator

from modules.runtimes.shim.log_file import LogFile
from modules.runtimes.shim.log_lines import LineFramer, format_entries

STDOUT, STDERR = b"\2", b"\3"
"""The first byte of a packet to an attached client."""
_NAMES = {STDOUT: b"stdout", STDERR: b"stderr"}
_READ = 32 * 1024 - 1
"""Bytes of output in one packet. With its first byte it is what the streaming session reads at once."""
_MOST_AT_THE_END = 1024 * 1024
"""Bytes that a pipe can hold (/proc/sys/fs/pipe-max-size): more at its end comes from an endless writer."""


class Output:
    """One output stream."""

    def __init__(self, descriptor: int, kind: bytes, log: LogFile) -> None:
        self.descriptor = descriptor
        self._kind = kind
        self._log = log
        self._framer = LineFramer()
        os.set_blocking(descriptor, False)

    def pump(self, now_ns: int) -> bytes | None:
        """Move one piece into the log; return the packet for attached clients, b"" for nothing, None at the end."""
        try:
            piece = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: nobody has the terminal open now
            return None
        if not piece:
            return None
        self._log.write(format_entries(self._framer.feed(piece), _NAMES[self._kind], now_ns))
        return self._kind + piece

    def rest(self, now_ns: int) -> Iterator[bytes]:
        """Move what is left into the log, even if another process holds the other end, and end the stream there; yield
        the packets.
        """
        left = _MOST_AT_THE_END
        while left > 0 and (packet := self.pump(now_ns)):
            yield packet
            left -= len(packet) - 1
        self.finish(now_ns)

    def finish(self, now_ns: int) -> None:
        """End the stream in the log."""
        self._log.write(format_entries(self._framer.finish(), _NAMES[self._kind], now_ns))


class Input:
    """The standard input of a container, or its terminal. Input that the container does not take yet is kept."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """Negative once the input has ended."""
        self.pending = b""
        self._ends = False
        os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        """Take more for the container."""
        self.pending += data
        self.flush()

    def flush(self) -> None:
        """Write as much pending input as the container takes."""
        try:
            while self.pending:
                self.pending = self.pending[os.write(self.descriptor, self.pending) :]
        except BlockingIOError:
            return
        except OSError:  # EPIPE, or EIO of a terminal: the container reads no more
            self.pending, self._ends = b"", True
        if self._ends and self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def end(self) -> None:
        """End the input after the pending bytes."""
        self._ends = True
        self.flush()
