"""The log file of one container, and the pipes that fill it."""

import os
import time
from pathlib import Path

from beehive.files.linkless import open_without_links
from modules.runtimes.shim.log_lines import LineFramer, format_entries

_READ_SIZE = 64 * 1024
_PIPE_LIMIT = 1024 * 1024
"""Bytes that a pipe can hold (/proc/sys/fs/pipe-max-size): more at its end comes from an endless writer."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_MODE = 0o640


def _opened(path: str) -> int:
    """Open a log; `/dev/null` is for a container without one. Raises OSError."""
    if path == os.devnull:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    return open_without_links(Path(path), _FLAGS, _MODE)


class LogFile:
    """Appends to a path; a full disk loses log entries, never a container."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _opened(path)

    def write(self, lines: bytes) -> None:
        """Append whole lines. Lines that cannot be written are dropped, because blocking would stop the container."""
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return

    def reopen(self) -> None:
        """Continue in a new file at the same path: log rotation has renamed the old one (ReopenContainerLog)."""
        descriptor = _opened(self._path)
        os.close(self._descriptor)
        self._descriptor = descriptor


class LogPipe:
    """One output stream of a container on its way to the log."""

    def __init__(self, stream: bytes, log: LogFile) -> None:
        self._stream = stream
        self._log = log
        self._framer = LineFramer()
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_end, False)

    def pump(self) -> bool:
        """Move one chunk to the log; return False when the stream has ended."""
        chunk = self._read()
        if chunk:
            self._log.write(format_entries(self._framer.feed(chunk), self._stream, time.time_ns()))
        return chunk != b""

    def finish(self) -> None:
        """Move the rest of the pipe to the log, even if another process holds the other end, and end the stream."""
        for _ in range(_PIPE_LIMIT // _READ_SIZE):
            if not (chunk := self._read()):
                break
            self._log.write(format_entries(self._framer.feed(chunk), self._stream, time.time_ns()))
        self._log.write(format_entries(self._framer.finish(), self._stream, time.time_ns()))

    def _read(self) -> bytes | None:
        try:
            return os.read(self.read_end, _READ_SIZE)
        except BlockingIOError:
            return None
