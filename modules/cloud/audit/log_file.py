"""The file of the audit log: lines in order, bounded in size, written on a thread of its own."""

import logging
import os
import re
import stat
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from beehive.clock import Clock
from beehive.errors import BeehiveError
from beehive.on_failure import on_failure
from modules.cloud.audit.events import DROPPED, AuditEvent

_log = logging.getLogger(__name__)

MOST_WAITING: Final = 4 * 1024 * 1024
"""Bytes of events that wait for the file; further ones are left out and counted."""
_MODE: Final = 0o600
_STAMP: Final = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}"
_FORMAT: Final = "%Y-%m-%dT%H-%M-%S.%f"


class AuditLogError(BeehiveError):
    """The file of the audit log cannot be used."""


class _Line(NamedTuple):
    text: bytes
    told: int
    """Events that were left out and that this one tells of."""


class AuditLog:
    """The audit log: a file that only this user can read, and a new one when that is full. Thread-safe.

    The full file is kept beside the new one with the time in its name, `audit-2026-11-27T07-30-00.000.log` (as
    kube-apiserver does), and the oldest of these are removed. `put` never waits for the disk: an event without room in
    memory, or that cannot be written, is left out and counted, and the next event says how many are missing before it.

    Args:
        path: of the file; its directory exists.
        most_bytes: of the file.
        backups: full files that are kept.
        clock: for the names of full files.

    Raises:
        AuditLogError: the file cannot be opened, or is no file.
    """

    def __init__(self, path: Path, most_bytes: int, backups: int, clock: Clock) -> None:
        self.path = path
        self.written = 0
        self.dropped = 0
        self.failure = ""
        """Why the last event could not be written; "" if it was."""
        self._most_bytes = most_bytes
        self._backups = backups
        self._clock = clock
        self._condition = threading.Condition()
        self._waiting: deque[_Line] = deque()
        self._bytes = 0
        """Of the waiting events, and of those that are being written."""
        self._untold = 0
        """Events that were left out and that no event tells of."""
        self._is_closed = False
        self._size = 0
        self._is_torn = False
        """Whether the file ends within a line."""
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)
        try:
            self._descriptor = self._opened()
        except OSError as error:
            hint = "--audit-log-path names a file in a directory that exists, and that this user can write"
            raise AuditLogError("cannot open the audit log", f"{path}: {error.strerror or error}", hint) from error

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def put(self, event: AuditEvent) -> None:
        """Have an event written; it never waits."""
        with self._condition:
            told = self._untold
            if told:
                event = msgspec.structs.replace(event, annotations={**event.annotations, DROPPED: str(told)})
            line = msgspec.json.encode(event) + b"\n"
            if self._is_closed:
                self.dropped += 1
                return
            if self._bytes + len(line) > MOST_WAITING:
                self._leave_out(1, "events come faster than they can be written")
                return
            self._untold = 0
            self._waiting.append(_Line(line, told))
            self._bytes += len(line)
            self._condition.notify()

    def close(self) -> None:
        """Write the waiting events, and close the file."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._is_closed:
                    self._condition.wait()
                lines, self._waiting = self._waiting, deque()
            if not lines:
                return
            self._write_all(lines)
            with self._condition:
                self._bytes -= sum(len(line.text) for line in lines)

    def _write_all(self, lines: deque[_Line]) -> None:
        """Write lines, several at a time; the ones that fail are left out."""
        parts = list(lines)
        while parts:
            count, size = 0, self._size
            while count < len(parts) and (not count or size + len(parts[count].text) <= self._most_bytes):
                size += len(parts[count].text)
                count += 1
            part, parts = parts[:count], parts[count:]
            try:
                self._write(b"".join(line.text for line in part))
            except OSError as error:
                with self._condition:
                    self._leave_out(len(part), str(error.strerror or error))
                    self._untold += sum(line.told for line in part)
            else:
                with self._condition:
                    self.written += len(part)
                    self.failure = ""

    def _leave_out(self, number: int, why: str) -> None:
        """Count events that are left out; the lock is held. The first of several is logged."""
        if not self.failure:
            _log.error("the audit log %s has gaps: %s", self.path, why)
        self.failure = why
        self.dropped += number
        self._untold += number

    def _write(self, data: bytes) -> None:
        """Append whole lines. Raises OSError."""
        if self._descriptor < 0:
            self._descriptor = self._opened()
        if self._size and self._size + len(data) > self._most_bytes:
            self._rotate()
        left = memoryview(b"\n" + data if self._is_torn else data)
        while left:
            number = os.write(self._descriptor, left)
            self._size += number
            self._is_torn = number < len(left)
            left = left[number:]

    def _rotate(self) -> None:
        """Begin a new file. Raises OSError."""
        full, self._descriptor = self._descriptor, -1
        os.close(full)  # the number is another file's then, also after an error, as of a full network file system
        self.path.rename(self._name_of_next())
        self._descriptor = self._opened()
        for _, each in self._full_files()[: -self._backups]:
            with suppress(OSError):
                each.unlink()

    def _full_files(self) -> list[tuple[datetime, Path]]:
        """Return the full files with the times in their names, the oldest first; a file whose name has no time is not
        ours. Raises OSError.
        """
        pattern = re.compile(f"{re.escape(self.path.stem)}-({_STAMP}){re.escape(self.path.suffix)}", re.ASCII)
        found = list[tuple[datetime, Path]]()
        for each in self.path.parent.iterdir():
            if stamp := pattern.fullmatch(each.name):
                with suppress(ValueError):
                    found.append((datetime.strptime(f"{stamp[1]}+0000", f"{_FORMAT}%z"), each))
        return sorted(found)

    def _name_of_next(self) -> Path:
        """Return the name of the next full file: by the time, but after the newest one, if the clock was set back."""
        at = datetime.fromtimestamp(self._clock.now(), UTC)
        for newest, file in self._full_files()[-1:]:
            if self._named(at) <= file:
                with suppress(OverflowError):  # the last millisecond of the year 9999
                    at = newest + timedelta(milliseconds=1)
        while self._named(at).exists():
            at += timedelta(milliseconds=1)
        return self._named(at)

    def _named(self, at: datetime) -> Path:
        return self.path.with_name(f"{self.path.stem}-{at.strftime(_FORMAT)[:-3]}{self.path.suffix}")

    def _opened(self) -> int:
        """Return the file, which begins at its end. Raises OSError."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(self.path, flags, _MODE)
        with on_failure(lambda: os.close(file)):
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, "it is no file")
            os.fchmod(file, _MODE)
            self._size = found.st_size
            self._is_torn = self._size > 0 and os.pread(file, 1, self._size - 1) != b"\n"
        return file
