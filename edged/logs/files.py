"""The files of one container's log: the one that is written, and those that were rotated away from it.

A kubelet renames `0.log` to `0.log.20261120-054216` and packs all but the newest of those (`.gz`). `kubectl logs` on a
kubelet shows the file that is written and no more; here what was rotated is shown before it, so that a line is not lost
to the reader a moment after it was written.
"""

import errno
import gzip
import logging
import os
import re
import stat
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from edged.logs.lines import is_whole
from edged.logs.tail import find_tail

_log = logging.getLogger(__name__)

MOST: Final = 32
"""Rotated files that are looked at, the newest."""

_LOOKS: Final = 10
"""At files that are rotated all the while. Rotations are many seconds apart, and opening takes milliseconds."""

_OURS: Final = 3
"""Parts of a log's path that are made for its pod: `<pod>/<container>/<attempt>.log`. Those above are the machine's."""

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line that are taken at a time; runtimes break lines at 16 KiB."""


class PackedFile(gzip.GzipFile):
    """A packed log that ends where it is damaged: a rotation that a loss of power broke off hides no other file.

    Args:
        packed: closed with it.
        name: for the log.
    """

    def __init__(self, packed: BufferedReader, name: str) -> None:
        super().__init__(name, "rb", fileobj=packed)
        self._packed = packed

    def close(self) -> None:
        """Let go of both."""
        super().close()
        self._packed.close()

    def readline(self, size: int | None = -1) -> bytes:
        """As of any file."""
        try:
            return super().readline(size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            _log.warning("the rotated log %s is damaged, what follows in it is not shown: %s", self.name, error)
            return b""


LogFile = BufferedReader | PackedFile

_ROTATED: Final = re.compile(r"\.\d{8}-\d{6}(\.gz)?")


def open_all(path: Path) -> list[LogFile]:
    """The files of a log, oldest first, opened at once: a rotation meanwhile moves none of them away.

    A rotation while they are being opened changes the names of the older ones, and they are opened again: else the file
    that was written until then would be among them twice, or one that is just being packed not at all.

    Raises:
        FileNotFoundError: there is none.
    """
    older = _readable(path)
    for _ in range(_LOOKS):
        files = _opened(path, older)
        known, older = older, _readable(path)
        if older == known:
            break
        for file in files:
            file.close()
    else:
        files = _opened(path, older)
    if not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return files


def keep_tail(files: list[LogFile], wanted: int) -> list[LogFile]:
    """The files that hold the last `wanted` lines, the first of them at the first of these lines; others are closed."""
    kept: list[LogFile] = []
    for file in reversed(files):
        if wanted > 0 or not kept:
            wanted -= _seek_tail(file, wanted)
            kept.append(file)
        else:
            file.close()
    return kept[::-1]


def rotated(path: Path) -> list[Path]:
    """What was rotated away from a log, oldest first."""
    return sorted(each for each in path.parent.glob(f"{path.name}.*") if _ROTATED.fullmatch(each.name, len(path.name)))


def remove_log(path: Path) -> None:
    """Remove a log and what was rotated away from it; success when there is none. Raises OSError."""
    for file in (path, *rotated(path)):
        file.unlink(missing_ok=True)


def _readable(path: Path) -> list[Path]:
    """The rotated files, oldest first. One that is packed and not removed yet is there twice and counts once."""
    found = rotated(path)
    plain = {each.name for each in found if each.suffix != ".gz"}
    return [each for each in found if each.suffix != ".gz" or each.stem not in plain][-MOST:]


def _opened(path: Path, older: list[Path]) -> list[LogFile]:
    files: list[LogFile] = []
    for each in (*older, path):
        try:
            file = open_log(each)
        except FileNotFoundError:
            continue
        except OSError as error:
            if each is path:
                raise
            _log.warning("the rotated log %s is left out: %s", each, error.strerror)
            continue
        files.append(PackedFile(file, str(each)) if each.suffix == ".gz" else file)
    return files


def open_log(path: Path) -> BufferedReader:
    """Open one file of a log: a regular one that is really there.

    Containers may have got hold of the directory of logs. A link in a file's place, or in that of the directories of
    its container and its pod, is not followed, nor is a pipe waited for.

    Raises:
        OSError: it cannot be opened, or is none.
    """
    *directories, name = path.parts[-_OURS:]
    within = os.open(Path(*path.parts[: -len(directories) - 1]), _DIRECTORY)
    try:
        for part in directories:
            following = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
            os.close(within)
            within = following
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=within)
    finally:
        os.close(within)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _seek_tail(file: LogFile, wanted: int) -> int:
    """Go to where the last lines begin; how many there are. What is packed has no end to begin at: it is read twice."""
    if isinstance(file, PackedFile):
        found = sum(1 for head in _heads(file) if is_whole(head))
        file.seek(0)
        ends = _heads(file)
        skipped = max(0, found - wanted)
        while skipped:
            skipped -= is_whole(next(ends))
        return min(found, wanted)
    tail = find_tail(file.fileno(), wanted)
    file.seek(tail.offset)
    return tail.lines


def _heads(file: LogFile) -> Iterator[bytes]:
    """Every line, of which `LONGEST_LINE` bytes are kept."""
    return iter(lambda: file.readline(LONGEST_LINE), b"")
