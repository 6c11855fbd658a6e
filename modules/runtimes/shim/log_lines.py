"""The container log format of Kubernetes (CRI): `<RFC 3339 time> <stream> <F|P> <content>`, one entry for each line.

A line longer than 16 KiB is written in pieces, all but the last marked P (partial); so is an unfinished last line.
containerd does the same, and log readers (kubelet, log shippers) join the pieces.
"""

import time
from collections.abc import Iterator

LINE_LIMIT = 16 * 1024
"""Bytes of content in one entry (containerd's max_container_log_line_size)."""

FULL = b"F"
PARTIAL = b"P"

Entry = tuple[bytes, bytes]
"""Tag and content of one log entry."""


class LineFramer:
    """The framer of one stream's bytes into entries, independent of the chunks that arrive."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Entry]:
        """Yield the entries that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield from _pieces(line)
        while len(self._rest) > LINE_LIMIT:
            yield PARTIAL, self._rest[:LINE_LIMIT]
            self._rest = self._rest[LINE_LIMIT:]

    def finish(self) -> Iterator[Entry]:
        """Yield the unfinished line at the end of the stream, if any."""
        if self._rest:
            yield PARTIAL, self._rest


def _pieces(line: bytes) -> Iterator[Entry]:
    while len(line) > LINE_LIMIT:
        yield PARTIAL, line[:LINE_LIMIT]
        line = line[LINE_LIMIT:]
    yield FULL, line


def timestamp(nanoseconds: int) -> bytes:
    """Format nanoseconds since the epoch as RFC 3339 in UTC with nine decimals, as CRI demands."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return b"%b.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), fraction)


def format_entries(entries: Iterator[Entry], stream: bytes, nanoseconds: int) -> bytes:
    """Return the lines of the log file for `entries`, all with one time."""
    head = b"%b %b " % (timestamp(nanoseconds), stream)
    return b"".join([b"%b%b %b\n" % (head, tag, content) for tag, content in entries])
