"""Writes Docker's stream of a container's log to the log in CRI's form."""

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from beehive.http.errors import HttpError
from modules.runtimes.docker.answers import nanoseconds
from modules.runtimes.docker.client import DockerClient, Exchange, Query
from modules.runtimes.docker.frames import FrameError, FrameReader, LineReader
from modules.runtimes.docker.log_file import ContainerLogFile

_log = logging.getLogger(__name__)

_READS: Final = 8
"""Reads of one container's socket before the next container is served."""
_NANOSECONDS: Final = 1_000_000_000


class ContainerLog:
    """The log of one container, written from successive streams of Docker's. Thread-safe.

    Args:
        container_id: of the container.
        path: of the log; empty for none.
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
        """Return the number of the stream that is written from now on, and the time at which it must begin."""
        with self._lock:
            self._stream += 1
            self._reader = LineReader() if self._tty else FrameReader()
            if not self._is_closed:
                with suppress(OSError):  # reported at the first entry
                    self._file.resume()
            seconds, rest = divmod(nanoseconds(self._file.last.decode("ascii", "replace")), _NANOSECONDS)
            return self._stream, f"{seconds}.{rest:09}" if seconds else ""

    def take(self, stream: int, data: bytes) -> None:
        """Write bytes of a stream, unless a newer stream has replaced it. Raises FrameError."""
        with self._lock:
            if stream != self._stream or self._is_closed:
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
    """A stream of Docker's that lasts as long as the container runs (see `process_watcher.Watched`)."""

    def __init__(self, exchange: Exchange, log: ContainerLog, stream: int, on_end: Callable[[bool], None]) -> None:
        """`on_end` is called on the watcher's thread, with whether any output arrived."""
        self._exchange = exchange
        self._log = log
        self._stream = stream
        self._on_end = on_end
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
                self._log.take(self._stream, piece)
                self._has_received = True
        except (OSError, HttpError, FrameError) as error:
            _log.info("a log of Docker's broke off: %s", error)
            return False
        return piece is None

    def gone(self) -> None:
        """Handle the end of the stream: the container has ended, or the connection broke."""
        self.close()
        self._on_end(self._has_received)

    def stop(self) -> None:
        """End the stream; called on any thread, and handled by the watcher."""
        with suppress(OSError):
            self._exchange.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._exchange.close()


def open_log_stream(docker: DockerClient, container_id: str, since: str, *, follow: bool) -> Exchange:
    """Return Docker's stream of a log. Raises RequestRefusedError."""
    query: dict[str, str] = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": "1" if follow else "0"}
    if since:
        query["since"] = since
    asked: Query = query
    return docker.stream("GET", f"/containers/{container_id}/logs", f"read the log of container {container_id}", asked)


def catch_up(docker: DockerClient, container_id: str, log: ContainerLog) -> None:
    """Write all output that Docker has stored and the log lacks. Raises RequestRefusedError."""
    stream, since = log.resume()
    exchange = open_log_stream(docker, container_id, since, follow=False)
    try:
        while piece := exchange.piece():
            log.take(stream, piece)
    except (OSError, HttpError, FrameError) as error:
        raise docker.unreachable(f"read the log of container {container_id}", error) from error
    finally:
        exchange.close()
