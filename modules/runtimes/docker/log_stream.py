"""Writes Docker's stream of a container's log to the log in CRI's form.

Docker stores the output itself (its json-file driver), so nothing is lost while edgecore does not run: the log
continues after its last entry.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd
from beehive.files.linkless import open_without_links
from beehive.http.errors import HttpError
from beehive.on_failure import on_failure
from modules.runtimes.docker.answers import nanoseconds
from modules.runtimes.docker.client import DockerClient, Exchange, Query
from modules.runtimes.docker.frames import FrameError, FrameReader, LineReader
from modules.runtimes.shim.log_file import append_lines

_log = logging.getLogger(__name__)

_READS: Final = 8
"""Reads of one container's socket before the next container is served."""
_NANOSECONDS: Final = 1_000_000_000

_TAIL: Final = 256 * 1024
"""Bytes at the end of a log that are searched for its last entries; Docker breaks lines at 16 KiB."""
_MODE: Final = 0o640
_ENTRY: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,20}) std(?:out|err) [FP] ")
_ROTATED: Final = re.compile(r"\.\d{8}-\d{6}")


class ContainerLog:
    """The log of one container, written from successive streams of Docker's. Thread-safe.

    Args:
        container_id: of the container.
        path: of the log, or "".
        tty: whether the container has a terminal.
    """

    def __init__(self, container_id: str, path: str, *, tty: bool) -> None:
        self._id = container_id
        self._tty = tty
        self._file = ContainerLogFile(path)
        self._lock = threading.Lock()
        self._stream = 0
        self._reader: FrameReader | LineReader = FrameReader()
        self._is_closed = False
        self._failed = False

    def resume(self) -> tuple[int, str]:
        """Return the number of the stream that is written from now on, and its earliest time."""
        with self._lock:
            self._stream += 1
            self._reader = LineReader() if self._tty else FrameReader()
            if not self._is_closed:
                with suppress(OSError):  # reported at the first entry
                    self._file.resume()
            seconds, rest = divmod(nanoseconds(self._file.last.decode("ascii", "replace")), _NANOSECONDS)
            return self._stream, f"{seconds}.{rest:09}" if seconds else ""

    def write(self, stream: int, data: bytes) -> None:
        """Write bytes of a stream, unless a newer stream has replaced it. Raises FrameError."""
        with self._lock:
            if stream != self._stream:
                return
            for name, content in self._reader.frames(data):
                time, _, text = content.partition(b" ")
                self._write(name, time, text)

    def reopen(self) -> None:
        """Continue in a new file. Raises OSError."""
        with self._lock:
            if not self._is_closed:
                self._file.reopen()

    def close(self) -> None:
        """Stop writing."""
        with self._lock:
            self._is_closed = True
            self._file.close()

    def _write(self, stream: str, time: bytes, text: bytes) -> None:
        try:
            self._file.write(stream, time, text.removesuffix(b"\n"), is_whole=text.endswith(b"\n"))
        except OSError as error:
            if not self._failed:
                _log.warning("the log of container %s has gaps: %s", self._id, error)
            self._failed = True


class LogFollower:
    """A stream of Docker's that lasts as long as the container runs (see `process_watcher.Watched`).

    Args:
        exchange: the stream.
        stream: its number, see `ContainerLog.resume`.
        log: is written.
        ended: called at the end, with whether something has come.
    """

    def __init__(self, exchange: Exchange, stream: int, log: ContainerLog, ended: Callable[[bool], None]) -> None:
        self._exchange = exchange
        self._stream = stream
        self._log = log
        self._ended = ended
        self._has_received = False
        exchange.socket.setblocking(False)  # noqa: FBT003 - socket's own

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._exchange.socket.fileno()

    def read(self) -> bool:
        """Write the bytes that have arrived; return False at the end of the stream."""
        pieces = self._exchange.available(_READS)
        try:
            while piece := pieces.next():
                self._log.write(self._stream, piece)
                self._has_received = True
        except (OSError, HttpError, FrameError) as error:
            _log.info("a log of Docker's broke off: %s", error)
            return False
        return piece is None

    def gone(self) -> None:
        """Handle the end of the stream: the container has ended, or the connection broke."""
        self.close()
        self._ended(self._has_received)

    def stop(self) -> None:
        """End the stream; called on any thread, and handled by the watcher."""
        with suppress(OSError):
            self._exchange.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._exchange.close()


def open_log_stream(docker: DockerClient, container_id: str, since: str, *, follow: bool) -> Exchange:
    """Return Docker's stream of a log. Raises RequestRefusedError."""
    query: Query = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": "1" if follow else "0"}
    if since:
        query = {**query, "since": since}
    return docker.stream("GET", f"/containers/{container_id}/logs", f"read the log of container {container_id}", query)


def catch_up(docker: DockerClient, container_id: str, log: ContainerLog) -> None:
    """Write all output that Docker has stored and the log lacks. Raises RequestRefusedError."""
    stream, since = log.resume()
    exchange = open_log_stream(docker, container_id, since, follow=False)
    try:
        while piece := exchange.piece():
            log.write(stream, piece)
    except (OSError, HttpError, FrameError) as error:
        raise docker.unreachable(f"read the log of container {container_id}", error) from error
    finally:
        exchange.close()


class ContainerLogFile:
    """The log file of one container; without a path nothing is written. The caller holds a lock around each method.

    Args:
        path: absolute path, or empty.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self.last = b""
        """Time of the last entry, as Docker wrote it, or ""."""
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
            append_lines(self._descriptor, line)

    def reopen(self) -> None:
        """Continue in a new file after the old one was renamed. Raises OSError, and then goes on in the old one."""
        before, self._descriptor = self._descriptor, -1
        try:
            self._open()
        except BaseException:
            self._descriptor = before
            raise
        if before >= 0:
            os.close(before)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        """Open the file, and remove a last entry that a full disk has truncated."""
        if not self._path or self._descriptor >= 0:
            return
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_without_links(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _MODE)
        with on_failure(lambda: os.close(descriptor)):
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, _TAIL, max(0, size - _TAIL))
            if tail and not tail.endswith(b"\n"):
                os.ftruncate(descriptor, size - (len(tail) - (tail.rfind(b"\n") + 1)))
        self._descriptor = descriptor


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
    with OwnedFd(descriptor):
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).split(b"\n")
    found = (_ENTRY.match(line) for line in (lines[1:] if size > _TAIL else lines))
    return [entry[1] for entry in found if entry]
