"""The files of one container's log: the current one, and the rotated ones.

As in a kubelet, `0.log` is renamed to `0.log.20261120-054216`, and all rotated files but the newest are packed (`.gz`).
A kubelet's `kubectl logs` shows only the current file; here the rotated files come first, so that a rotation never
hides lines that were just written.
"""

import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from io import BufferedReader
from itertools import count, dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from beehive.files.linkless import open_without_links
from beehive.patterns import pattern
from edged.logs.lines import LONGEST_HEAD, is_whole, time_of
from modules.apimachinery.types import Nanoseconds
from modules.apimachinery.types.times import SECOND

if TYPE_CHECKING:
    from edged.logs.packed import PackedFile

_log = logging.getLogger(__name__)

MOST: Final = 32
"""Rotated files to read, the newest ones."""

_TRIES: Final = 10
"""Tries to list the files without a rotation meanwhile. Rotations are many seconds apart, and opening takes
milliseconds.
"""

LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line to read at a time; runtimes break lines at 16 KiB."""

BLOCK: Final = 64 * 1024
"""Bytes to read at a time, and to hold in memory."""


LogFile: TypeAlias = "BufferedReader | PackedFile"

NAME_FORMAT: Final = "%Y%m%d-%H%M%S"
"""Form of the time at the end of a rotated file's name, in UTC."""
_INEXACT: Final = 2 * SECOND
"""Nanoseconds by which a line may be later than its file's last change: file systems have coarser times."""
_PEEKS: Final = 32
"""Buffers to unpack in a turn, of 8 KiB or, from Python 3.12 on, 128 KiB; or lines at their ends."""
_ROTATED: Final = pattern(r"\.\d{8}-\d{6}(\.gz)?")


def open_all(path: Path, since: Nanoseconds | None = None) -> list[LogFile]:
    """Open the files of a log, oldest first; a rotation afterwards does not affect them. Rotated files with older lines
    only are not opened.

    A rotation meanwhile renames older files, and they are opened again: otherwise the current file could be opened
    twice, or a file that is being packed not at all.

    Raises:
        FileNotFoundError: the log does not exist.
    """
    older = _readable(path, since)
    for _ in range(_TRIES):
        files = _opened(path, older)
        known, older = older, _readable(path, since)
        if older == known:
            break
        for file in files:
            file.close()
    else:
        files = _opened(path, older)
    if not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return files


def keep_tail(files: list[LogFile], wanted: int, end: int) -> list[LogFile]:
    """Return the files with the last `wanted` lines, the first one at the first of these lines; close the others.

    Args:
        files: of a log, oldest first.
        wanted: number of lines.
        end: bytes of the newest file that count.
    """
    kept: list[LogFile] = []
    for file in reversed(files):
        if wanted > 0 or not kept:
            wanted -= _seek_tail(file, wanted, os.fstat(file.fileno()).st_size if kept else end)
            kept.append(file)
        else:
            file.close()
    return kept[::-1]


def rotated(path: Path) -> list[Path]:
    """Return the rotated files of a log, oldest first."""
    return sorted(each for each in path.parent.glob(f"{path.name}.*") if _ROTATED.fullmatch(each.name, len(path.name)))


def remove_log(path: Path) -> None:
    """Remove a log and its rotated files, if they exist. Raises OSError."""
    for file in (path, *rotated(path)):
        file.unlink(missing_ok=True)


def links_to(log: Path, directory: Path, prefix: str = "") -> list[Path]:
    """Return the links in a directory whose names begin so and that lead to a log, or to the logs below a directory.
    Raises OSError.
    """
    found, target = [], str(log)
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.name.startswith(prefix) and entry.is_symlink():
                    leads_to = os.readlink(entry.path)  # noqa: PTH115 - a path for each would take longer
                    if leads_to == target or leads_to.startswith(f"{target}/"):
                        found.append(Path(entry.path))
    return found


def _readable(path: Path, since: Nanoseconds | None) -> list[Path]:
    """Return the rotated files that may have lines of a time or later ones, oldest first. A file that exists plain and
    packed, while it is being packed, counts once.
    """
    found = rotated(path)
    plain = {each.name for each in found if each.suffix != ".gz"}
    known = [each for each in found if each.suffix != ".gz" or each.stem not in plain][-MOST:]
    if since is None:
        return known
    return list(dropwhile(lambda each: _last_time(each, path.name) < since, known))


def rotated_at(file: Path, current: str) -> datetime:
    """Return when a file was rotated, by its name and the current file's. Raises ValueError, OverflowError."""
    return datetime.strptime(f"{file.name[len(current) + 1 :].removesuffix('.gz')} +0000", f"{NAME_FORMAT} %z")


def _last_time(file: Path, current: str) -> int:
    """Return a time that no line of a rotated file is later than, in nanoseconds: of its rotation, or of its last
    change, as it is still written until the runtime has opened the next one. The far future if it is not known.
    """
    try:
        changed, renamed = file.lstat().st_mtime_ns, int(rotated_at(file, current).timestamp()) * SECOND
    except (OSError, ValueError, OverflowError):
        return sys.maxsize
    return max(changed, renamed) + _INEXACT


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
        files.append(_unpacking(file, str(each)) if each.suffix == ".gz" else file)
    return files


def _unpacking(packed: BufferedReader, name: str) -> "PackedFile":
    from edged.logs.packed import PackedFile  # noqa: PLC0415 - with the first rotated log that is read

    return PackedFile(packed, name)


def open_log(path: Path) -> BufferedReader:
    """Open one file of a log, without following links.

    A container may have got hold of the directory of logs. So a link in the place of the file, or of the directories of
    its container and pod, is not followed, and a pipe does not block.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    return open(path, "rb", opener=lambda _, flags: open_without_links(path, flags))


class Tail(msgspec.Struct, frozen=True):
    """The beginning of the last lines."""

    offset: int
    lines: int
    """Number of lines from there on: the wanted number, or all of a shorter file."""


def find_tail(descriptor: int, wanted: int, end: int, block: int = BLOCK) -> Tail:
    """Return the offset of the last `wanted` lines of a file, found from its end without reading the rest.

    A line of the container counts once, even if the runtime has split it into parts.

    Args:
        descriptor: of the file.
        wanted: number of lines.
        end: bytes of the file that count: a container may write more meanwhile.
        block: bytes to read at a time.
    """
    begin = end
    if wanted <= 0:
        return Tail(end, 0)
    found = 0
    for start, head in _backwards(descriptor, end, block):
        if is_whole(head) or found == 0:
            if found == wanted:
                return Tail(begin, found)
            found += 1
        begin = start
    return Tail(0, found)


def _backwards(descriptor: int, size: int, block: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from the last to the first: offset and first bytes."""
    position, after = size, b""
    while position > 0:
        step = min(block, position)
        position -= step
        data = os.pread(descriptor, step, position)
        window, at = data + after, len(data)
        while (newline := data.rfind(b"\n", 0, at)) >= 0:
            start = newline + 1
            if position + start < size:
                yield position + start, window[start : start + LONGEST_HEAD]
            at = newline
        after = window[:LONGEST_HEAD]
    if size:
        yield 0, after


def skip_older(file: LogFile, since: Nanoseconds, end: int, pass_on: Callable[[], None]) -> None:
    """Go on to a line before which all are older than a time, not far before the first one that is not.

    Args:
        file: at the beginning of a line.
        since: the time.
        end: bytes of the file that count; without a meaning for a packed one.
        pass_on: called where this takes longer.
    """
    if isinstance(file, BufferedReader):
        file.seek(find_since(file.fileno(), since, file.tell(), end))
    else:
        _unpack_older(file, since, pass_on)


def find_since(descriptor: int, since: Nanoseconds, begin: int, end: int, block: int = BLOCK) -> int:
    """Return the offset of a line before which all are older than a time: the first one that is not begins less than
    two blocks after it, or after a line without a time. Found by halves.

    Args:
        descriptor: of the file.
        since: the time.
        begin: offset of a line.
        end: bytes of the file that count.
        block: bytes to read at a time.
    """
    low, high = begin, end
    while high - low > block:
        middle = (low + high) // 2
        start, at = _dated(descriptor, middle, high, block)
        if at is None or at >= since:
            high = middle
        else:
            low = start
    return low


def _dated(descriptor: int, begin: int, end: int, block: int) -> tuple[int, Nanoseconds | None]:
    """Return the offset and the time of the first line that begins after an offset, and has a time; else None."""
    position, rest = begin, b""
    while position < end and (data := os.pread(descriptor, min(block, end - position), position)):
        window, offset = rest + data, position - len(rest)
        at = window.find(b"\n")
        while at >= 0 and (len(window) - at > LONGEST_HEAD or offset + len(window) >= end):
            if (time := time_of(window[at + 1 : at + 1 + LONGEST_HEAD])) is not None:
                return offset + at + 1, time
            at = window.find(b"\n", at + 1)
        position += len(data)
        rest = window[at:] if at >= 0 else b""
    return end, None


def _unpack_older(file: "PackedFile", since: Nanoseconds, pass_on: Callable[[], None]) -> None:
    """Unpack and forget lines: many at a time while the last one that is unpacked is older than a time."""
    for number in count(1):
        data = file.peeked()
        last = data.rfind(b"\n", 0, max(0, data.rfind(b"\n"))) + 1
        time = time_of(data[last : last + LONGEST_HEAD]) if last else None
        if time is not None and time < since:
            file.read(last)
        else:
            first = piece = file.readline(LONGEST_LINE)
            if (time_of(first) or 0) >= since or not first:
                file.give_back(first)
                return
            while piece and not piece.endswith(b"\n"):
                piece = file.readline(LONGEST_LINE)
        if number % _PEEKS == 0:
            pass_on()


def _seek_tail(file: LogFile, wanted: int, end: int) -> int:
    """Go to the beginning of the last lines and return their number. A packed file cannot be read backwards: it is read
    twice.
    """
    if not isinstance(file, BufferedReader):
        found = sum(1 for head in _heads(file) if is_whole(head))
        file.seek(0)
        ends = _heads(file)
        skipped = max(0, found - wanted)
        while skipped:
            skipped -= is_whole(next(ends))
        return min(found, wanted)
    tail = find_tail(file.fileno(), wanted, end)
    file.seek(tail.offset)
    return tail.lines


def _heads(file: LogFile) -> Iterator[bytes]:
    """Yield the first `LONGEST_LINE` bytes of every line."""
    return iter(lambda: file.readline(LONGEST_LINE), b"")
