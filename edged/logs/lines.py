"""One line of a container's log as a container runtime writes it (the CRI log format).

    2026-11-20T05:42:16.000000001Z stdout F what the container printed

`F` is a full line, `P` a part of one that is longer than the runtime's buffer; the next line of the stream goes on with
it. Further tags may follow after a colon.
"""

from typing import Final, NamedTuple

from edged.api import Nanoseconds, parse_time
from edged.api.times import TimeError

LONGEST_HEAD: Final = 64
"""Bytes of a line in which time, stream and tag are found."""


class LogLine(NamedTuple):
    """A line of the file, or a part of a line of the container."""

    time: bytes
    stream: str
    whole: bool
    """It ends the container's line."""
    text: bytes
    """Without the end of the line, which a part has not."""

    @property
    def at(self) -> Nanoseconds | None:
        """When it was written; None when the time cannot be read."""
        return _instant(self.time)


def parse_line(raw: bytes) -> LogLine | None:
    """A line without its end; None for what is no line of a log."""
    fields = raw.split(b" ", 3)
    if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr"):
        return None
    return LogLine(fields[0], fields[1].decode(), is_whole(raw), fields[3] if len(fields) == 4 else b"")


def is_whole(head: bytes) -> bool:
    """Whether a line ends a line of the container, by its first bytes."""
    fields = head[:LONGEST_HEAD].split(b" ", 3)
    return len(fields) < 3 or fields[2].split(b":")[0] != b"P"


def _instant(time: bytes) -> Nanoseconds | None:
    """Runtimes write nine digits, of which Python reads six; the rest decides nothing that a person asks for."""
    try:
        return parse_time(time.decode("ascii"))
    except (TimeError, UnicodeDecodeError):
        return None
