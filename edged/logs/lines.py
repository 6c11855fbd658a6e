"""One line of a container's log, as container runtimes write it (the CRI log format).

    2026-11-20T05:42:16.000000001Z stdout F text of the container

`F` is a full line, `P` a part of a line that is longer than the runtime's buffer; the stream's next entry continues it.
Further tags may follow after a colon.
"""

from typing import Final, NamedTuple

from modules.apimachinery.types import Nanoseconds, parse_time
from modules.apimachinery.types.times import TimeError

LONGEST_HEAD: Final = 64
"""Bytes of a line that contain time, stream and tag."""


class LogLine(NamedTuple):
    """An entry of the file: a line of the container, or a part of one."""

    time: bytes
    stream: str
    whole: bool
    """Whether it ends the container's line."""
    text: bytes
    """Without the newline."""

    @property
    def at(self) -> Nanoseconds | None:
        """When it was written; None for an invalid time."""
        return _instant(self.time)


def parse_line(raw: bytes) -> LogLine | None:
    """Parse an entry without its newline; None when it is invalid."""
    fields = raw.split(b" ", 3)
    if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr"):
        return None
    return LogLine(fields[0], fields[1].decode(), is_whole(raw), fields[3] if len(fields) == 4 else b"")


def time_of(head: bytes) -> Nanoseconds | None:
    """Return when an entry was written, by its first bytes; None when it is invalid."""
    fields = head[:LONGEST_HEAD].split(b" ", 2)
    return _instant(fields[0]) if len(fields) == 3 and fields[1] in (b"stdout", b"stderr") else None


def is_whole(head: bytes) -> bool:
    """Return whether an entry ends a line of the container, by its first bytes."""
    fields = head[:LONGEST_HEAD].split(b" ", 3)
    return len(fields) < 3 or fields[2].split(b":")[0] != b"P"


def _instant(time: bytes) -> Nanoseconds | None:
    """Parse the time. Runtimes write nine digits, and Python reads six; requests are not more precise."""
    try:
        return parse_time(time.decode("ascii"))
    except (TimeError, UnicodeDecodeError):
        return None
