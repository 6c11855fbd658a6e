"""Reads a container's log for a person."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from io import BufferedReader
from pathlib import Path
from typing import Final

from edged.logs.files import LONGEST_LINE, LogFile, keep_tail, open_all, open_log, skip_older
from edged.logs.lines import LogLine, parse_line
from edged.logs.turns import ReadingTurns
from modules.apimachinery.pods.log_options import LogOptions

PIECE: Final = 32 * 1024
"""Bytes per piece when more text is available."""

PAUSE: Final = 0.1
"""Seconds between two reads of a followed log."""

_TURN: Final = 256 * 1024
"""Bytes to read in a turn, where nothing of them is shown."""
_TURNS: Final = ReadingTurns()
"""Of all logs."""


class LogReader:
    """A reader of a container's log, to the end that it had at first or, if it follows the container, until that ends.

    What a container writes meanwhile is left out, unless it is followed: the last line is one line, and the log of a
    container that writes faster than somebody reads has an end.

    A followed log is read every tenth of a second: inotify would need a binding that the standard library lacks, does
    not work on every file system, and is not noticeably faster. One such read is one system call on an open file. As in
    a kubelet, a follower ends when the container has ended and its whole log is read. Memory does not grow with the
    log: one line and one piece of output are held.

    The files are open from the start; `close` it.

    Args:
        path: the current file.
        options: the part to show.
        ended: returns whether the container has ended.

    Raises:
        OSError: the log cannot be read.
    """

    def __init__(self, path: Path, options: LogOptions, ended: Callable[[], bool]) -> None:
        self._path = path
        self._options = options
        self._ended = ended
        with _TURNS.turn():
            files = open_all(path, options.since)
            self._end = os.fstat(files[-1].fileno()).st_size
            self._files = files if options.tail is None else keep_tail(files, options.tail, self._end)

    def pieces(self, gone_within: Callable[[float], bool]) -> Generator[bytes, None, None]:
        """Yield the text, in pieces.

        Args:
            gone_within: waits so many seconds, and returns whether the client has disconnected.
        """

        def waiting(seconds: float) -> bool:
            with _TURNS.pause():
                return gone_within(seconds)

        with closing(self._pieces(waiting)) as found:
            while True:
                with _TURNS.turn():
                    piece = next(found, None)
                if piece is None:
                    return
                yield piece

    def _pieces(self, gone_within: Callable[[float], bool]) -> Generator[bytes, None, None]:
        read = 0
        view, left = _View(self._options), self._options.limit
        out = bytearray()
        for raw in self._raw(gone_within, view):
            out += view.cut() if raw is None else view.shown(raw)
            read += len(raw or b"")
            if read >= _TURN:
                read = 0
                _TURNS.pass_on()
            if out and (len(out) >= PIECE or not raw or left is not None):
                piece = bytes(out if left is None else out[:left])
                out.clear()
                yield piece
                left = None if left is None else left - len(piece)
                if left == 0:
                    return
        if out:
            yield bytes(out)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    @staticmethod
    def _skip(file: LogFile, view: "_View", end: int) -> None:
        if view.since is not None:
            skip_older(file, view.since, end, _TURNS.pass_on)

    def _drop(self, file: LogFile) -> None:
        """Close a file that has been read: a log that is followed for weeks is rotated a million times, and a removed
        file takes its place on the disk until it is closed.
        """
        file.close()
        self._files.remove(file)

    def _raw(self, gone_within: Callable[[float], bool], view: "_View") -> Iterator[bytes | None]:
        """Yield the lines of the files, most of those before the first wanted one left out; an empty one before each
        wait for more; None at the end of a file.
        """
        for file in self._files[:-1]:
            self._skip(file, view, os.fstat(file.fileno()).st_size)
            yield from _ended_lines(file)
            self._drop(file)
        file = self._files[-1]
        self._skip(file, view, self._end)
        if not self._options.follow:
            yield from _lines_until(file, self._end)
            return
        while True:
            # checked before the last read, which then gets everything that the container has written
            over = self._ended()
            successor = _successor(self._path, file)
            yield from _whole_lines(file)
            if successor is not None:
                self._files.append(successor)
                yield from _ended_lines(file)
                self._drop(file)
                file = successor
            elif over:
                yield from _lines(file)
                return
            else:
                yield b""
                if gone_within(PAUSE):
                    return


class _View:
    """The lines to show, selected and formatted, and where a line of the container begins."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self.since = options.since
        """The time of the first line to show; None from there on."""
        self._fresh = True
        self._unfinished: LogLine | None = None

    def shown(self, raw: bytes) -> bytes:
        """Return the text to show of an entry."""
        if not raw:
            return b""
        if self._unfinished is not None:
            line = self._unfinished._replace(text=raw.removesuffix(b"\n"))
            return self._text(line, ends=raw.endswith(b"\n"))
        parsed = parse_line(raw.removesuffix(b"\n"))
        if parsed is None or parsed.stream not in self._options.streams or not self._recent_enough(parsed):
            return b""
        return self._text(parsed, ends=raw.endswith(b"\n"))

    def cut(self) -> bytes:
        """End a line that the file has left unfinished: the next file begins with an entry of its own."""
        return self.shown(b"\n") if self._unfinished is not None else b""

    def _text(self, line: LogLine, *, ends: bool) -> bytes:
        """Return an entry's text. `ends` is false for the first part of an entry longer than `LONGEST_LINE`."""
        prefix = line.time + b" " if self._options.timestamps and self._fresh else b""
        whole = ends and line.whole
        self._fresh = whole
        self._unfinished = None if ends else line
        return prefix + line.text + (b"\n" if whole else b"")

    def _recent_enough(self, line: LogLine) -> bool:
        """Return whether the entry is recent enough. Times in a log only grow, so after the first such entry nothing is
        compared.
        """
        if self.since is not None and line.at is not None and line.at >= self.since:
            self.since = None
        return self.since is None


def _lines(file: LogFile) -> Iterator[bytes]:
    return iter(lambda: file.readline(LONGEST_LINE), b"")


def _lines_until(file: LogFile, end: int) -> Iterator[bytes]:
    left = end - file.tell()
    while left > 0 and (raw := file.readline(min(left, LONGEST_LINE))):
        left -= len(raw)
        yield raw


def _ended_lines(file: LogFile) -> Iterator[bytes | None]:
    """Yield the lines of a file that is no longer written."""
    yield from _lines(file)
    yield None


def _whole_lines(file: LogFile) -> Iterator[bytes | None]:
    """Yield the whole lines. A line that is still being written is read again later. A truncated file is read
    from its start.
    """
    if isinstance(file, BufferedReader) and os.fstat(file.fileno()).st_size < file.tell():
        file.seek(0)
        yield None
    for raw in _lines(file):
        if not raw.endswith(b"\n") and len(raw) < LONGEST_LINE:
            file.seek(-len(raw), os.SEEK_CUR)
            return
        yield raw


def _successor(path: Path, file: LogFile) -> "LogFile | None":
    """Open the file that has replaced a rotated one; None while `file` is still the current one, or its replacement
    cannot be opened.
    """
    try:
        successor = open_log(path)
    except OSError:
        return None
    if os.path.sameopenfile(successor.fileno(), file.fileno()):
        successor.close()
        return None
    return successor
