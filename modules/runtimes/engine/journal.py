"""The journal of a state directory, which makes its small files durable: one flush for all who wait for one.

A file that is made durable by itself takes two flushes, of its content and of its name, and a pod has several files; on
an SD card a flush takes 10 ms and more. So the files are written without a flush, their contents are appended to the
journal as well, and the journal is flushed, once for all threads that wait for it at the moment.

    ROOT/journal    frames: length and checksum of a message, and the message (`Frame`)

A kill of this process loses neither files nor frames. A power cut may lose or empty files that the journal has, and the
next start, at another boot of the machine, writes them again. A torn frame at the end is cut off: nobody was told that
it is durable. Frames of directories that were removed are left out when the journal has grown and is written anew.
"""

import logging
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from beehive.decoding import msgpack_decoder
from beehive.files.damaged import set_aside_unless_file
from beehive.files.durable import beside, replace_soon, sync_directory, write_file
from beehive.files.reading import read_file

_log = logging.getLogger(__name__)

NAME: Final = "journal"

_HEAD: Final = struct.Struct("<II")
"""Length of a message, and its checksum."""
_LARGEST: Final = 1024 * 1024
"""Bytes of a journal before it is written anew; at least twice as many as it needs."""
_MOST_BYTES: Final = 1024 * 1024 * 1024
"""Bytes that are read of a journal."""
_OPEN: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_OWNER_ONLY: Final = 0o600


class Frame(msgspec.Struct, array_like=True, frozen=True):
    """The content of a file, or the removal of a directory, whose frame has no name.

    `boot` is the machine's boot in which it was written; `directory` is relative to the state directory.
    """

    boot: str
    directory: str
    name: str = ""
    content: bytes = b""


class _Place(msgspec.Struct, frozen=True):
    """The place of a frame in the journal."""

    offset: int
    length: int


class Journal:
    """The journal of one state directory. Thread-safe.

    Args:
        root: the state directory.
        boot: the machine's boot.

    Raises OSError if it cannot be read.
    """

    def __init__(self, root: Path, boot: str) -> None:
        self._root = root
        self._boot = boot
        self._path = root / NAME
        self._writing = threading.Lock()
        self._flushing = threading.Lock()
        self._appended = self._flushed = self._size = 0
        self._limit = _LARGEST
        """Bytes before it is written anew; 0 if a flush has failed, because a further one would not tell."""
        self._descriptor = -1
        self._live: dict[str, dict[str, _Place]] = {}
        self._earlier: dict[str, dict[str, bytes]] = {}
        """Files of earlier boots."""
        set_aside_unless_file(self._path, root)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def write(self, path: Path, content: bytes) -> None:
        """Replace a file of a sandbox's or container's directory; durable after `flush`. Raises OSError."""
        replace_soon(path, content)
        self.add(path.parent, {path.name: content})

    def add(self, directory: Path, contents: Mapping[str, bytes]) -> None:
        """Note the contents of files that were written; durable after `flush`. Raises OSError."""
        key = self._key(directory)
        self._append([Frame(self._boot, key, name, content) for name, content in contents.items()])

    def remove(self, directory: Path) -> None:
        """Forget a directory before it is removed. If that fails, as on a full disk, a power cut brings it back."""
        if (key := self._key(directory)) in self._live:
            with suppress(OSError):
                self._append([Frame(self._boot, key)])
            self._live.pop(key, None)

    def flush(self) -> None:
        """Make durable what was written before this call. Raises OSError."""
        wanted = self._appended
        with self._flushing:
            if self._flushed >= wanted:
                return
            appended = self._appended
            if self._size <= self._limit or not self._is_rewritten():
                try:
                    os.fdatasync(self._descriptor)
                except OSError:
                    self._limit = 0
                    raise
            self._flushed = appended

    def restore(self, known: Iterable[Path], name: str) -> None:
        """Write files of earlier boots that a power cut has spoilt, and note the directories that are not known yet.

        A directory that is missing at the same boot was removed.

        Args:
            known: the directories; iterated when the files are written.
            name: of the file that may be replaced in a directory of an earlier version.
        """
        for key, files in self._earlier.items():
            try:
                if files:
                    _put(self._root / key, files)
            except OSError as error:  # a full disk; the next start tries again
                _log.warning("what a power cut has spoilt cannot be written: %s", error)
        present = {self._key(directory): directory for directory in known}
        for key in self._live.keys() - present.keys() - self._earlier.keys():
            del self._live[key]
        self._earlier = {}
        for key in present.keys() - self._live.keys():
            with suppress(OSError):  # a damaged directory, a full disk: it stays as durable as it is
                self.add(present[key], {name: read_file(present[key] / name, _MOST_BYTES)})
        with suppress(OSError):
            self.flush()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _key(self, directory: Path) -> str:
        return "/".join(str(directory).rsplit("/", 2)[-2:])

    def _read(self) -> None:
        """Take the frames over, and cut off a torn end. Raises OSError."""
        try:
            content = read_file(self._path, _MOST_BYTES)
        except FileNotFoundError:
            return
        for frame, place in _frames(content):
            self._record_place(frame, place.length)
            if not frame.name:
                self._earlier.pop(frame.directory, None)
            elif frame.boot != self._boot:
                self._earlier.setdefault(frame.directory, {})[frame.name] = frame.content
            else:
                self._earlier.get(frame.directory, {}).pop(frame.name, None)
        self._open()
        os.ftruncate(self._descriptor, self._size)

    def _open(self) -> None:
        """Open the file, whose name is durable then. Raises OSError, and then it is not open."""
        descriptor = os.open(self._path, _OPEN, _OWNER_ONLY)
        try:
            sync_directory(self._root)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _append(self, frames: list[Frame]) -> None:
        packed = [_packed(frame) for frame in frames]
        with self._writing:
            if self._descriptor < 0:
                self._open()
            rest = memoryview(b"".join(packed))
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
                raise
            for frame, each in zip(frames, packed, strict=True):
                self._record_place(frame, len(each))
            self._appended += 1

    def _record_place(self, frame: Frame, length: int) -> None:
        """Record the place of the frame that follows."""
        if frame.name:
            self._live.setdefault(frame.directory, {})[frame.name] = _Place(self._size, length)
        else:
            self._live.pop(frame.directory, None)
        self._size += length

    def _is_rewritten(self) -> bool:
        """Write the journal anew, durably; return False if that fails. Raises OSError if nothing else can help."""
        with self._writing:
            places = [place for files in self._live.values() for place in files.values()]
            content = b"".join(os.pread(self._descriptor, place.length, place.offset) for place in places)
            try:
                descriptor = self._replaced(content)
            except OSError:
                if not self._limit:
                    raise
                self._limit *= 2
                return False
            os.close(self._descriptor)
            self._descriptor, self._size, self._live = descriptor, 0, {}
            for frame, place in _frames(content):
                self._record_place(frame, place.length)
            self._limit = 0  # until its name is durable
            sync_directory(self._root)
            self._limit = max(_LARGEST, 2 * self._size)
            return True

    def _replaced(self, content: bytes) -> int:
        """Replace the file by one with durable content, and return the open one. Raises OSError, and then leaves the
        earlier one.
        """
        following = beside(self._path)
        write_file(following, content)
        descriptor = os.open(following, _OPEN, _OWNER_ONLY)
        try:
            following.replace(self._path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _packed(frame: Frame) -> bytes:
    body = msgspec.msgpack.encode(frame)
    return _HEAD.pack(len(body), crc32(body)) + body


def _frames(content: bytes) -> Iterator[tuple[Frame, _Place]]:
    """Yield the whole frames with their places."""
    decoder, offset = msgpack_decoder(Frame), 0
    while len(content) - offset >= _HEAD.size:
        length, checksum = _HEAD.unpack_from(content, offset)
        body = content[offset + _HEAD.size : offset + _HEAD.size + length]
        if len(body) < length or crc32(body) != checksum:
            return
        try:
            frame = decoder.decode(body)
        except msgspec.MsgspecError:
            return
        yield frame, _Place(offset, _HEAD.size + length)
        offset += _HEAD.size + length


def _put(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make a directory if it is missing, and write the files that are missing or have another content."""
    if not directory.is_dir():
        directory.mkdir()
        directory.chmod(0o711)
    for name, content in files.items():
        try:
            is_there = read_file(directory / name, len(content) + 1) == content
        except OSError:
            is_there = False
        if not is_there:
            replace_soon(directory / name, content)
