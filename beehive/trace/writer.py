"""Writes traces: to one file, which is only appended to, or to a directory of parts that rotate by size.

Whole frames are passed to the operating system; a frame that a crash cut is removed when the file is appended to again.
A trace may hold confidential data, so its mode is 0600.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import gmtime, strftime
from typing import IO, Final, NoReturn, Protocol

import msgspec

from beehive.errors import TraceError
from beehive.files.numbered import next_number, number_of
from beehive.files.opening import opener_with
from beehive.on_failure import on_failure
from beehive.trace.contents import ContentSplitter
from beehive.trace.format import Note, NoteKind, Record, TraceHeader
from beehive.trace.frames import Frames, encode

SUFFIX: Final = ".trace"
PART_BYTES: Final = 64 * 1024 * 1024
PARTS: Final = 16
FILE_BYTES: Final = 256 * 1024 * 1024
"""Default limit of a trace in one file, in bytes."""
_FEWEST: Final = 4
"""Parts that a directory has at least, so that three quarters of its limit are left after a rotation."""


class Writer(Protocol):
    """A writer of records in the order of their time."""

    def write(self, records: Iterable[Record]) -> None:
        """Append records and pass them to the operating system.

        Raises:
            TraceError: the records could not be written.
        """

    def close(self) -> None:
        """Close the file."""


class FileWriter:
    """A trace in one file. The records of an earlier run stay; a new header follows them.

    Args:
        path: of the file.
        header: of the run.
        limit: bytes that the file may have; the record that would exceed it is replaced by a note, and ends the trace.

    Raises:
        TraceError: the file cannot be opened, is not a trace, or has no room left.
    """

    def __init__(self, path: Path, header: TraceHeader, limit: int | None = None) -> None:
        self._path = path
        self._limit = limit
        self._contents = ContentSplitter()
        self._file = _open(path)
        self.size = self._file.tell()
        """Bytes of the file."""
        if limit is not None and self.size >= limit:
            self.close()
            raise _full(path, limit, "give another file, or delete it")
        self._append(encode(header))

    def write(self, records: Iterable[Record]) -> None:
        """Append records, as `Writer.write` does."""
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
        """Close the file."""
        self._file.close()

    def _end(self, data: list[bytes], time: float, limit: int) -> NoReturn:
        """Write the records that fit and a note that the trace ends, and raise TraceError."""
        text = f"the recording ends here: the file may have {limit} bytes"
        self._append(b"".join((*data, encode(Note(time, 0, 0, 0, NoteKind.LOST, "", text)))))
        raise _full(self._path, limit, "a directory keeps the newest instead; --record-limit gives more room")

    def _append(self, data: bytes) -> None:
        """Append whole frames, or none of them if the disk has no room for all."""
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
    """A trace in the parts of a directory; the oldest parts are deleted.

    Args:
        directory: made if it does not exist.
        header: of the first part; the others have the same one with their own number.
        part_bytes: size above which the next part begins.
        parts: number of parts that are kept, including parts of earlier runs.
    """

    def __init__(
        self, directory: Path, header: TraceHeader, *, part_bytes: int = PART_BYTES, parts: int = PARTS
    ) -> None:
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
        """Append records, as `Writer.write` does."""
        for record in records:
            self._file.write((record,))
            if self._file.size >= self._part_bytes:
                self._next()

    def close(self) -> None:
        """Close the present part."""
        self._file.close()

    def _next(self) -> None:
        self._file.close()
        self._header = msgspec.structs.replace(self._header, part=self._header.part + 1)
        self._file = self._open(self._header.part)

    def _open(self, part: int) -> FileWriter:
        path = new_part(self._directory, self._header.began, f"{part:06d}")
        file = FileWriter(path, self._header)
        keep_newest(self._directory, self._parts)
        return file


def parts_of(directory: Path) -> list[Path]:
    """Return the parts of a trace in a directory, in the order in which they were begun: by number, and by name those
    of earlier versions, which have none.
    """
    parts = (path for path in directory.iterdir() if path.suffix == SUFFIX and path.is_file())
    return sorted(parts, key=lambda part: (number_of(part.stem), part.name))


def new_part(directory: Path, began: float, name: str) -> Path:
    """Return the path of a further part in a directory, `TIME-NAME.NUMBER.trace`.

    Raises:
        TraceError: the directory cannot be read.
    """
    millis = int(began * 1000)
    moment = f"{strftime('%Y%m%dT%H%M%S', gmtime(millis // 1000))}.{millis % 1000:03d}Z"
    try:
        number = next_number(part.stem for part in parts_of(directory))
    except OSError as error:
        raise TraceError("cannot read the directory of the trace", str(directory), str(error.strerror)) from error
    return directory / f"{moment}-{name}.{number}{SUFFIX}"


def keep_newest(directory: Path, number: int) -> None:
    """Delete all but the last `number` parts of a trace; a part that cannot be deleted stays, without an error."""
    with suppress(OSError):
        for old in parts_of(directory)[:-number]:
            old.unlink(missing_ok=True)


def open_writer(path: Path, header: TraceHeader, limit: int | None = None) -> Writer:
    """Open a writer into a directory if `path` is one, otherwise into a file.

    Args:
        path: of the file or directory.
        header: of the run.
        limit: bytes. A file ends at its limit; a directory loses its oldest parts. None stands for `FILE_BYTES` in a
            file, and `PARTS` parts in a directory.

    Raises:
        TraceError: the file cannot be opened, is not a trace, or has no room left.
    """
    if not path.is_dir():
        return FileWriter(path, header, FILE_BYTES if limit is None else limit)
    if limit is None:
        return DirectoryWriter(path, header)
    part = min(PART_BYTES, limit // _FEWEST)
    return DirectoryWriter(path, header, part_bytes=part, parts=max(_FEWEST, limit // part))


def _open(path: Path) -> IO[bytes]:
    """Open a file for appending after its last whole frame; unbuffered, so that a write is one system call."""
    try:
        opener = opener_with(flags=os.O_CREAT | os.O_NOFOLLOW)
        file = open(path, "r+b", buffering=0, opener=opener)  # noqa: SIM115 - the writer has it
    except OSError as error:
        raise TraceError("cannot open the trace for writing", str(path), str(error.strerror)) from error
    with on_failure(file.close):
        _cut(file, path)
        _make_private(file)
    return file


def _make_private(file: IO[bytes]) -> None:
    """Remove the permissions of group and others from an existing file."""
    if os.fstat(file.fileno()).st_mode & 0o077:
        os.fchmod(file.fileno(), 0o600)


def _cut(file: IO[bytes], path: Path) -> None:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise TraceError("cannot append to the file", str(path), "an ordinary file or a directory is wanted")
    with open(file.fileno(), "rb", closefd=False) as reader:
        frames = Frames(reader)
        for _ in frames:
            pass
    if frames.damage and not frames.offset:
        raise TraceError("cannot append to the file", str(path), "it is no trace; give another name")
    file.seek(frames.offset)
    file.truncate()
