"""The log of a container in CRI's form, written from the output that Docker has stored.

Docker stores the output itself (its json-file driver), so nothing is lost while edgecore does not run: the log
continues after its last entry.
"""

import os
import re
from pathlib import Path
from typing import Final

_TAIL: Final = 256 * 1024
"""Bytes at the end of a log that are searched for its last entries; Docker breaks lines at 16 KiB."""
_MODE: Final = 0o640
_ENTRY: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,20}) std(?:out|err) [FP] ")
_ROTATED: Final = re.compile(r"\.\d{8}-\d{6}")


class ContainerLogFile:
    """The log file of one container; without a path nothing is written. The caller holds a lock around each method.

    Args:
        path: absolute path, or empty.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self.last = b""
        """Time of the last entry, as Docker wrote it; empty if there is none."""
        self._repeated = 0
        self._to_skip = 0
        self._is_resuming = False

    def resume(self) -> None:
        """Find the last entry; Docker will repeat all entries with its time. Raises OSError."""
        self._open()
        if not self.last:
            self.last, self._repeated = _last_entry(Path(self._path)) if self._path else (b"", 0)
        self._to_skip, self._is_resuming = self._repeated, True

    def write(self, stream: str, time: bytes, text: bytes, *, is_whole: bool) -> None:
        """Add an entry, unless the log has it already. `text` has no newline. Raises OSError."""
        if self._is_resuming:
            if time < self.last:  # of one length: Docker writes nine digits
                return
            if time == self.last and self._to_skip:
                self._to_skip -= 1
                return
            self._is_resuming = False
        self._repeated = self._repeated + 1 if time == self.last else 1
        self.last = time
        if self._descriptor >= 0:
            line = b"%s %s %s %s\n" % (time, stream.encode(), b"F" if is_whole else b"P", text)
            _write_all(self._descriptor, line)

    def reopen(self) -> None:
        """Continue in a new file after the old one was renamed. Raises OSError."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        """Open the file, and remove a last entry that a full disk has truncated."""
        if not self._path or self._descriptor >= 0:
            return
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, _MODE)
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, _TAIL, max(0, size - _TAIL))
        if tail and not tail.endswith(b"\n"):
            os.ftruncate(self._descriptor, size - (len(tail) - (tail.rfind(b"\n") + 1)))


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _last_entry(path: Path) -> tuple[bytes, int]:
    """Return the time of the last entry of a log, or of its last rotated file, and the number of entries with this
    time.
    """
    older = sorted(each for each in path.parent.glob(f"{path.name}.*") if _ROTATED.fullmatch(each.name, len(path.name)))
    for file in (path, *reversed(older)):
        times = _times(file)
        if times:
            return times[-1], sum(1 for each in times if each == times[-1])
    return b"", 0


def _times(file: Path) -> list[bytes]:
    """Return the times of the last entries of a file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).split(b"\n")
    finally:
        os.close(descriptor)
    found = (_ENTRY.match(line) for line in (lines[1:] if size > _TAIL else lines))
    return [entry[1] for entry in found if entry]
