"""Writing traces: a file that is only ever appended to, or a directory of parts that rotate by size.

Every frame goes to the operating system whole, in one piece with its neighbours; what a crash leaves of the last one is
cut away when the file is appended to again. A trace may hold what a node's owner would not publish, so it is the
owner's alone (mode 0600).
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import gmtime, strftime
from typing import IO, Final, NoReturn, Protocol

import msgspec

from beehive.trace.contents import Shortener
from beehive.trace.errors import TraceError
from beehive.trace.format import Header, Note, NoteKind, Record
from beehive.trace.frames import Frames, encode

SUFFIX: Final = ".trace"
PART_BYTES: Final = 64 * 1024 * 1024
PARTS: Final = 16
FILE_BYTES: Final = 256 * 1024 * 1024
"""Bytes of a trace in one file, unless somebody says otherwise."""
_FEWEST: Final = 4
"""Parts that a small directory has at least: so that three quarters of what fits are there after a rotation."""


class Writer(Protocol):
    """Takes records in the order of their happening."""

    def write(self, records: Iterable[Record]) -> None:
        """Append them and hand them to the operating system.

        Raises:
            TraceError: they could not be written.
        """

    def close(self) -> None:
        """Give up the file."""


class FileWriter:
    """A trace in one file. What is there of an earlier run stays; a new header follows it.

    Args:
        path: of the file.
        header: of the run.
        limit: bytes that the file may have; what would make it longer is not written, but a note that says so.

    Raises:
        TraceError: the file cannot be opened, is something else than a trace, or has no room for more.
    """

    def __init__(self, path: Path, header: Header, limit: int | None = None) -> None:
        self._path = path
        self._limit = limit
        self._contents = Shortener()
        self._file = _open(path)
        self.size = self._file.tell()
        """Bytes so far."""
        if limit is not None and self.size >= limit:
            self.close()
            raise _full(path, limit, "give another file, or delete it")
        self._append(encode(header))

    def write(self, records: Iterable[Record]) -> None:
        """See `Writer`."""
        data: list[bytes] = []
        size = self.size
        for record in records:
            frames = b"".join(map(encode, self._contents.records(record)))
            if self._limit is not None and size + len(frames) > self._limit:
                self._end(data, record.time, self._limit)
            data.append(frames)
            size += len(frames)
        if data:
            self._append(b"".join(data))

    def close(self) -> None:
        """See `Writer`."""
        self._file.close()

    def _end(self, data: list[bytes], time: float, limit: int) -> NoReturn:
        """Write what there is room for, and why there is no more."""
        text = f"the recording ends here: the file may have {limit} bytes"
        self._append(b"".join((*data, encode(Note(time, 0, 0, 0, NoteKind.LOST, "", text)))))
        raise _full(self._path, limit, "a directory keeps the newest instead; --record-limit gives more room")

    def _append(self, data: bytes) -> None:
        """Append whole frames: where the disk has no room for all, nothing of them stays."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self.size)
            raise TraceError("cannot write the trace", str(self._path), error.strerror or str(error)) from error
        self.size += len(data)


def _full(path: Path, limit: int, hint: str) -> TraceError:
    return TraceError("cannot write the trace", f"{path} has no more room in its {limit} bytes", hint)


class DirectoryWriter:
    """A trace in parts of a directory, named so that their order is that of their names; the oldest go.

    Args:
        directory: made when it is not there.
        header: of the first part; the others have it with their own number.
        part_bytes: size after which a part is followed by the next.
        parts: how many are kept, those of earlier runs included.
    """

    def __init__(self, directory: Path, header: Header, *, part_bytes: int = PART_BYTES, parts: int = PARTS) -> None:
        self._directory = directory
        self._header = header
        self._part_bytes = part_bytes
        self._parts = parts
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError("cannot make the directory of the trace", str(directory), str(error.strerror)) from error
        self._file = self._open(header.part)

    def write(self, records: Iterable[Record]) -> None:
        """See `Writer`."""
        for record in records:
            self._file.write((record,))
            if self._file.size >= self._part_bytes:
                self._next()

    def close(self) -> None:
        """See `Writer`."""
        self._file.close()

    def _next(self) -> None:
        self._file.close()
        self._header = msgspec.structs.replace(self._header, part=self._header.part + 1)
        self._file = self._open(self._header.part)

    def _open(self, part: int) -> FileWriter:
        began = strftime("%Y%m%dT%H%M%S", gmtime(self._header.began))
        millis = int(self._header.began * 1000) % 1000
        file = FileWriter(self._directory / f"{began}.{millis:03d}Z-{part:06d}{SUFFIX}", self._header)
        keep_newest(self._directory, self._parts)
        return file


def parts_of(directory: Path) -> list[Path]:
    """The parts of a trace that was written into a directory, in their order."""
    return sorted(path for path in directory.iterdir() if path.suffix == SUFFIX and path.is_file())


def keep_newest(directory: Path, number: int) -> None:
    """Delete the parts of a trace but for so many; what cannot be deleted stays, and is no reason to end."""
    with suppress(OSError):
        for old in parts_of(directory)[:-number]:
            old.unlink(missing_ok=True)


def open_writer(path: Path, header: Header, limit: int | None = None) -> Writer:
    """A writer into a directory when `path` is one, otherwise into a file.

    Args:
        path: of the file or directory.
        header: of the run.
        limit: bytes at most. A file ends there; of a directory the oldest parts go. None: `FILE_BYTES` of a file, and
            `PARTS` parts of a directory.

    Raises:
        TraceError: see `FileWriter`.
    """
    if not path.is_dir():
        return FileWriter(path, header, FILE_BYTES if limit is None else limit)
    if limit is None:
        return DirectoryWriter(path, header)
    part = min(PART_BYTES, limit // _FEWEST)
    return DirectoryWriter(path, header, part_bytes=part, parts=max(_FEWEST, limit // part))


def _open(path: Path) -> IO[bytes]:
    """Open for appending after the last whole frame; unbuffered, so that a write is one system call."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        file = os.fdopen(descriptor, "r+b", buffering=0)
    except OSError as error:
        raise TraceError("cannot open the trace for writing", str(path), str(error.strerror)) from error
    try:
        _cut(file, path)
        _make_private(file)
    except BaseException:
        file.close()
        raise
    return file


def _make_private(file: IO[bytes]) -> None:
    """Take from others what they may have been allowed to do with a file that was there."""
    if os.fstat(file.fileno()).st_mode & 0o077:
        os.fchmod(file.fileno(), 0o600)


def _cut(file: IO[bytes], path: Path) -> None:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise TraceError("cannot append to the file", str(path), "an ordinary file or a directory is wanted")
    with os.fdopen(os.dup(file.fileno()), "rb") as reader:
        frames = Frames(reader)
        for _ in frames:
            pass
    if frames.damage and not frames.offset:
        raise TraceError("cannot append to the file", str(path), "it is no trace; give another name")
    file.seek(frames.offset)
    file.truncate()
