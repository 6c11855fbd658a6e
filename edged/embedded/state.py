"""The state directory: everything needed to find sandboxes and containers again.

    ROOT/lock                         held by the edgecore that uses the directory
    ROOT/images.json                  image names seen
    ROOT/damaged/                     what could not be read at a start, the newest of it
    ROOT/sandboxes/ID/                request.pb, record.json
    ROOT/containers/ID/               request.pb, record.json, run.json, exit.json,
                                      control (socket), work/, root/

A directory appears under its id by a rename when its files are complete, on the disk too, and disappears by a rename
before it is emptied: there is no half of one. The directories that containers work in can be reached by other users
(`runAsUser`), the files beside them are for edgecore's user alone.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from beehive.files.damaged import make_way, make_way_for_directory, set_aside
from beehive.files.durable import make_directories, put_in_place, replace_file, sync_directory, write_file
from beehive.files.reading import read_file
from beehive.files.removal import remove_tree
from edged.embedded.errors import StateDirectoryError
from edged.embedded.shepherd.protocol import CONTROL_SOCKET

_log = logging.getLogger(__name__)

RECORD = "record.json"
REQUEST = "request.pb"

SUBDIRECTORIES = ("work", "root")
"""Of a container."""

_LONGEST = 64 * 1024 * 1024
"""Bytes of a file that are read; requests come in messages of less."""

_TRAVERSABLE = 0o711
_HIDDEN = "."

StructT = TypeVar("StructT", bound=msgspec.Struct)


class StateDirectory:
    """The directories of all sandboxes and containers, locked for this process."""

    def __init__(self, root: Path) -> None:
        """Take the directory, made when it is missing; StateDirectoryError when another process has it."""
        self.root = root
        self.sandboxes = root / "sandboxes"
        self.containers = root / "containers"
        self.probe = root / "probe"
        make_directories(root)
        root.chmod(_TRAVERSABLE)
        self._lock = _lock(root)
        for directory in (self.sandboxes, self.containers, self.probe):
            self._make(directory)
        for directory in (self.sandboxes, self.containers):
            _clean(directory)

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._lock)

    def set_aside(self, path: Path, why: str) -> None:
        """Go on without an entry that cannot be used. Of a container only its records are kept."""
        for name in () if path.is_symlink() else SUBDIRECTORIES:
            _empty(path / name)
        set_aside(path, self.root, why)

    def _make(self, directory: Path) -> None:
        """Whatever else is in its place gives way."""
        make_way_for_directory(directory, self.root)
        directory.mkdir(exist_ok=True)
        directory.chmod(_TRAVERSABLE)


def publish(directory: Path, request: Message, record: msgspec.Struct, subdirectories: tuple[str, ...] = ()) -> None:
    """Make `directory` with its request and record, complete at once."""
    hidden = directory.with_name(f"{_HIDDEN}{directory.name}")
    hidden.mkdir()
    hidden.chmod(_TRAVERSABLE)
    for name in subdirectories:
        (hidden / name).mkdir(mode=0o700)
    write_file(hidden / REQUEST, request.SerializeToString())
    write_file(hidden / RECORD, msgspec.json.encode(record))
    sync_directory(hidden)
    put_in_place(hidden, directory)


def discard(directory: Path) -> None:
    """Remove `directory` and all in it; gone at once even if emptying it takes a while."""
    hidden = directory.with_name(f"{_HIDDEN}{directory.name}")
    _empty(hidden)
    try:
        directory.rename(hidden)
    except FileNotFoundError:
        return
    except OSError:
        hidden = directory  # what an earlier attempt could not empty has the name
    _empty(hidden)


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Replace the record at `path`. Raises OSError."""
    replace_file(path, msgspec.json.encode(record))


def read_record(path: Path, kind: type[StructT]) -> StructT | None:
    """The record at `path`; None when there is none, or what is there is none that can be read."""
    try:
        return msgspec.json.decode(read_file(path, _LONGEST), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def read_request(path: Path, request: Message) -> bool:
    """Fill `request` from the file at `path`; whether it could be read. An empty file is an empty message: whether it
    says anything is for the caller to see.
    """
    try:
        request.ParseFromString(read_file(path, _LONGEST))
    except (OSError, DecodeError):
        return False
    return True


def entries(directory: Path) -> list[Path]:
    """The published directories in `directory`, oldest name first."""
    return sorted(path for path in directory.iterdir() if not path.name.startswith(_HIDDEN))


class ControlAddress:
    """The address of a container's control socket, by way of a descriptor: a unix address holds 107 bytes only."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._descriptor}/{CONTROL_SOCKET}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _lock(root: Path) -> int:
    path = root / "lock"
    make_way(path, root)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StateDirectoryError(
            f'use the state directory "{path.parent}"',
            "another edgecore process uses it",
            "stop that process or configure another root directory",
        ) from None
    return descriptor


def _clean(directory: Path) -> None:
    """Remove what a crash left half made or half removed."""
    for path in directory.iterdir():
        if path.name.startswith(_HIDDEN):
            _empty(path)


def _empty(path: Path) -> None:
    """What cannot be removed is named, and tried again at the next start."""
    try:
        remove_tree(path)
    except OSError as error:
        _log.warning("cannot remove what a container has left: %s", error)
