"""The log file of one container."""

import os
from contextlib import suppress
from pathlib import Path

from beehive.files.linkless import open_without_links

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_MODE = 0o640


def _opened(path: str) -> int:
    """Open a log; `/dev/null` is for a container without one. Raises OSError."""
    if path == os.devnull:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    return open_without_links(Path(path), _FLAGS, _MODE)


def append_lines(descriptor: int, lines: bytes) -> None:
    """Append whole lines to a file that nobody else writes. Raises OSError; then a line that fits in part is left out:
    the next one would continue it.
    """
    written = 0
    try:
        while written < len(lines):
            written += os.write(descriptor, memoryview(lines)[written:])
    except BaseException:
        if torn := written - (lines.rfind(b"\n", 0, written) + 1):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - torn)
        raise


class LogFile:
    """A file to append to, by its path; a full disk loses log entries, never a container."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _opened(path)

    def write(self, lines: bytes) -> None:
        """Append whole lines. Lines that cannot be written are dropped, because blocking would stop the container."""
        with suppress(OSError):
            append_lines(self._descriptor, lines)

    def reopen(self) -> None:
        """Continue in a new file at the same path: log rotation has renamed the old one (ReopenContainerLog)."""
        former, self._descriptor = self._descriptor, _opened(self._path)
        with suppress(OSError):  # it is closed; what a network file system has no room for is lost
            os.close(former)
