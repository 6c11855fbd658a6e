"""Reads a container's log as a person wants to see it, to its end or along with the container.

New lines are found by looking at the file every tenth of a second, and only while somebody follows: inotify would need
a binding that the standard library has not, does not work on every file system, and nobody sees the difference. A look
is one read of a file that is open. A follower ends when the container has ended and everything that it wrote is read,
as with a kubelet.

Memory does not grow with the log: one line and one piece of output are held.
"""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

from edged.logs.files import LONGEST_LINE, LogFile, PackedFile, keep_tail, open_all, open_log
from edged.logs.lines import LogLine, parse_line
from edged.logs.options import LogOptions

PIECE: Final = 32 * 1024
"""Bytes that are given at a time when there is more."""

PAUSE: Final = 0.1
"""Seconds between two looks at a log that is followed."""


class LogReader:
    """See the module's docstring. Its files are open from the start; `close` it.

    Args:
        path: of the file that is written.
        options: what is wanted of it.
        ended: whether the container writes no more.

    Raises:
        OSError: the log cannot be read.
    """

    def __init__(self, path: Path, options: LogOptions, ended: Callable[[], bool]) -> None:
        self._path = path
        self._options = options
        self._ended = ended
        files = open_all(path)
        self._files = files if options.tail is None else keep_tail(files, options.tail)

    def pieces(self, gone_within: Callable[[float], bool]) -> Generator[bytes, None, None]:
        """The text, in pieces.

        Args:
            gone_within: waits so many seconds; true when nobody reads any more.
        """
        view, left = _View(self._options), self._options.limit
        out = bytearray()
        for raw in self._raw(gone_within):
            out += view.cut() if raw is None else view.shown(raw)
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
        """Let go of the files."""
        for file in self._files:
            file.close()

    def _raw(self, gone_within: Callable[[float], bool]) -> Iterator[bytes | None]:
        """Lines of the files as they are; nothing, before it is waited for more; None where a file ends."""
        for file in self._files[:-1]:
            yield from _ended_lines(file)
        file = self._files[-1]
        while True:
            # asked before the last look: what was written before it is seen by it
            over = not self._options.follow or self._ended()
            successor = None if over else _successor(self._path, file)
            if self._options.follow:
                yield from _whole_lines(file)
            else:
                yield from _lines(file)
            if successor is not None:
                self._files.append(successor)
                yield from _ended_lines(file)
                file.close()
                file = successor
            elif over:
                yield from _lines(file)
                return
            else:
                yield b""
                if gone_within(PAUSE):
                    return


class _View:
    """What is shown of each line; it knows where a line of the container begins."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since = options.since
        self._fresh = True
        self._unfinished: LogLine | None = None

    def shown(self, raw: bytes) -> bytes:
        """What of a line of the file is shown."""
        if not raw:
            return b""
        if self._unfinished is not None:
            line = self._unfinished._replace(text=raw.removesuffix(b"\n"))
            return self._text(line, ends=raw.endswith(b"\n"))
        parsed = parse_line(raw.removesuffix(b"\n"))
        if parsed is None or parsed.stream not in self._options.streams or not self._young_enough(parsed):
            return b""
        return self._text(parsed, ends=raw.endswith(b"\n"))

    def cut(self) -> bytes:
        """The file has ended. What was not finished in it does not go on in another, whose first line is its own."""
        return self.shown(b"\n") if self._unfinished is not None else b""

    def _text(self, line: LogLine, *, ends: bool) -> bytes:
        """`ends`: the line of the file does; one that is longer than what is taken at a time goes on."""
        prefix = line.time + b" " if self._options.timestamps and self._fresh else b""
        whole = ends and line.whole
        self._fresh = whole
        self._unfinished = None if ends else line
        return prefix + line.text + (b"\n" if whole else b"")

    def _young_enough(self, line: LogLine) -> bool:
        """Times in a log only grow, so that one comparison that holds is the last."""
        if self._since is not None and line.at is not None and line.at >= self._since:
            self._since = None
        return self._since is None


def _lines(file: LogFile) -> Iterator[bytes]:
    return iter(lambda: file.readline(LONGEST_LINE), b"")


def _ended_lines(file: LogFile) -> Iterator[bytes | None]:
    """Of a file that nobody writes to any more."""
    yield from _lines(file)
    yield None


def _whole_lines(file: LogFile) -> Iterator[bytes | None]:
    """Without one that is still being written: it is read again at the next look. What was emptied begins anew."""
    if not isinstance(file, PackedFile) and os.fstat(file.fileno()).st_size < file.tell():
        file.seek(0)
        yield None
    for raw in _lines(file):
        if not raw.endswith(b"\n") and len(raw) < LONGEST_LINE:
            file.seek(-len(raw), os.SEEK_CUR)
            return
        yield raw


def _successor(path: Path, file: LogFile) -> LogFile | None:
    """The file that took the place of one that was rotated away; None while it is itself the one that is written, and
    while what is there is no log.
    """
    try:
        successor = open_log(path)
    except OSError:
        return None
    if os.path.sameopenfile(successor.fileno(), file.fileno()):
        successor.close()
        return None
    return successor
