"""The state directory: all files where a restarted edgecore finds its sandboxes and containers.

    ROOT/lock                         held by the edgecore that uses the directory
    ROOT/journal                      makes requests and records durable, see `engine.journal`
    ROOT/images.json                  image names seen
    ROOT/damaged/                     the newest entries that could not be read at a start
    ROOT/sandboxes/ID/                request.pb, record.json
    ROOT/containers/ID/               request.pb, record.json, run.json, exit.json, asked-to-end,
                                      control (socket), work/, root/

A directory appears under its id by a rename when its files are complete, and disappears by a rename before it is
emptied; so a kill leaves none half made or half removed. What a power cut spoils of requests and records is written
again from the journal. Other users (`runAsUser`) can reach the directories that
containers work in; only edgecore's user can read the files beside them.

A container's variables, command and arguments may contain secrets (`secretKeyRef`, `$(NAME)`), and only its start needs
them. They stay in memory: request.pb does not have them.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from beehive.decoding import decode_json
from beehive.files.damaged import set_aside, set_aside_unless_directory, set_aside_unless_file
from beehive.files.descriptors import raise_shortage
from beehive.files.durable import make_directories, overwrite_soon, replace_file, write_soon
from beehive.files.reading import read_file
from beehive.files.removal import remove_tree
from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.engine.journal import Journal
from modules.runtimes.engine.records import current_boot_id
from modules.runtimes.shim.protocol import CONTROL_SOCKET
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

RECORD = "record.json"
REQUEST = "request.pb"
ASKED: Final = "asked-to-end"
"""Second name of the record of a container that has had its stop signal: it takes no inode. An empty file where a
file system has no hard links.
"""

SUBDIRECTORIES = ("work", "root")
"""Subdirectories of a container's directory."""

_LONGEST = 64 * 1024 * 1024
"""Bytes read of a file; requests arrive in smaller messages."""

_TRAVERSABLE = 0o711
OWNER_ONLY: Final = 0o700
"""Mode of a state directory with set-user-id programs of images, or with variables of containers."""
_SECRET: Final = ("envs", "command", "args")
"""Fields of a container's configuration that may contain secrets."""
_HIDDEN = "."

StructT = TypeVar("StructT", bound=msgspec.Struct)


class StateDirectory:
    """The directories of all sandboxes and containers, locked for this process."""

    def __init__(self, root: Path, bulky: tuple[str, ...] = SUBDIRECTORIES, mode: int = _TRAVERSABLE) -> None:
        """Lock the directory, made when missing. Raises StateDirectoryError when another process uses it.

        Args:
            root: the state directory.
            bulky: subdirectories of a container's directory that are removed when it is set aside.
            mode: of the directory.
        """
        self.root = root
        self._bulky = bulky
        self.sandboxes = root / "sandboxes"
        self.containers = root / "containers"
        self.probe = root / "probe"
        make_directories(root)
        root.chmod(mode)
        with ExitStack() as closing:
            closing.callback(os.close, _lock(root))
            for directory in (self.sandboxes, self.containers, self.probe):
                self._make(directory)
            for directory in (self.sandboxes, self.containers):
                _clean(directory)
            self.journal = Journal(root, current_boot_id())
            closing.callback(self.journal.close)
            self.journal.restore(self._published(), RECORD)
            self._closing = closing.pop_all()

    def release(self) -> None:
        """Unlock the directory for other processes."""
        self._closing.close()

    def set_aside(self, path: Path, why: str) -> None:
        """Move an unusable entry to `damaged`. Only a container's records are kept, not its other files."""
        for name in () if path.is_symlink() else self._bulky:
            _empty(path / name)
        self.journal.remove(path)
        set_aside(path, self.root, why)

    def _published(self) -> Iterator[Path]:
        """Yield the directories of sandboxes and containers."""
        for directory in (self.sandboxes, self.containers):
            yield from entries(directory)

    def _make(self, directory: Path) -> None:
        """Make the directory; a file in its place is moved out of the way."""
        set_aside_unless_directory(directory, self.root)
        directory.mkdir(exist_ok=True)
        directory.chmod(_TRAVERSABLE)


def publish(
    journal: Journal,
    directory: Path,
    request: Message,
    record: msgspec.Struct,
    subdirectories: tuple[str, ...] = (),
) -> None:
    """Make `directory` with its request and record, complete from the start; durable after a flush of the journal.

    Args:
        journal: of the state directory.
        directory: of the sandbox or container.
        request: as it is stored, see `without_secrets`.
        record: goes with it.
        subdirectories: are made in the directory.
    """
    hidden = f"{directory.parent}/{_HIDDEN}{directory.name}"
    os.mkdir(hidden)  # noqa: PTH102 - strings, as below: this is done for each container
    os.chmod(hidden, _TRAVERSABLE)  # noqa: PTH101
    for name in subdirectories:
        os.mkdir(f"{hidden}/{name}", 0o700)  # noqa: PTH102
    contents = {REQUEST: request.SerializeToString(), RECORD: msgspec.json.encode(record)}
    for name, content in contents.items():
        write_soon(f"{hidden}/{name}", content)
    os.replace(hidden, directory)  # noqa: PTH105
    journal.add(directory, contents)


def discard(journal: Journal, directory: Path) -> None:
    """Remove `directory` and its content; the name disappears immediately, even if emptying takes a while."""
    journal.remove(directory)
    hidden = directory.with_name(f"{_HIDDEN}{directory.name}")
    if not _is_renamed(directory, hidden):  # remains of an earlier attempt have the hidden name
        _empty(hidden)
        if not _is_renamed(directory, hidden):
            hidden = directory
    _empty(hidden)


def _is_renamed(directory: Path, hidden: Path) -> bool:
    """Rename a directory, if it is there; return False if that is refused."""
    try:
        directory.rename(hidden)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Replace the record at `path`. Raises OSError."""
    replace_file(path, msgspec.json.encode(record))


def write_record_soon(path: Path, record: msgspec.Struct) -> None:
    """Replace the record at `path`; a power cut brings back the one that was published. Raises OSError."""
    overwrite_soon(path, msgspec.json.encode(record))


def read_record(path: Path, kind: type[StructT]) -> StructT | None:
    """Return the record at `path`; None when it is missing or cannot be read.

    Raises OSError for a shortage of the process or machine (`SHORTAGES`), which tells nothing about the record.
    """
    try:
        return decode_json(read_file(path, _LONGEST), kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise_shortage(error)
        return None


def read_request(path: Path, request: Message) -> bool:
    """Fill `request` from the file at `path`; return whether it could be read. An empty file is an empty message: the
    caller checks its content. Raises OSError as `read_record`.
    """
    try:
        request.ParseFromString(read_file(path, _LONGEST))
    except (OSError, DecodeError) as error:
        raise_shortage(error)
        return False
    return True


def without_secrets(request: cri.CreateContainerRequest) -> cri.CreateContainerRequest:
    """Return the request of a container as it is stored: without what may contain secrets."""
    stored = cri.CreateContainerRequest()
    stored.CopyFrom(request)
    for field in _SECRET:
        stored.config.ClearField(field)
    return stored


def write_container_request(journal: Journal, directory: Path, request: cri.CreateContainerRequest) -> None:
    """Replace the request of a container's directory, without its secrets, durably. Raises OSError."""
    journal.write(directory / REQUEST, without_secrets(request).SerializeToString())
    journal.flush()


def read_container_request(directory: Path) -> cri.CreateContainerRequest | None:
    """Return the request of a container's directory; None when it cannot be read, or has no sandbox or name.

    Secrets in the file of an earlier version are removed from it.
    """
    request = cri.CreateContainerRequest()
    if not read_request(directory / REQUEST, request):
        return None
    if not (request.pod_sandbox_id and request.config.metadata.name):
        return None
    if any(getattr(request.config, field) for field in _SECRET):
        with suppress(OSError):  # a full disk; the next start tries again
            replace_file(directory / REQUEST, without_secrets(request).SerializeToString())
    return without_secrets(request)


def entries(directory: Path) -> list[Path]:
    """Return the published directories in `directory`, sorted by name."""
    return sorted(path for path in directory.iterdir() if not path.name.startswith(_HIDDEN))


class ControlAddress:
    """The address of a container's control socket, through a descriptor: a unix address holds 107 bytes only."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._descriptor}/{CONTROL_SOCKET}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _lock(root: Path) -> int:
    path = root / "lock"
    set_aside_unless_file(path, root)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise StateDirectoryError(
            f'use the state directory "{path.parent}"',
            "another edgecore process uses it",
            "stop that process or configure another root directory",
        ) from None
    return descriptor


def _clean(directory: Path) -> None:
    """Remove entries that a crash left half made or half removed."""
    for path in directory.iterdir():
        if path.name.startswith(_HIDDEN):
            _empty(path)


def _empty(path: Path) -> None:
    """Remove the tree. A failure is logged, and the next start tries again."""
    try:
        remove_tree(path)
    except OSError as error:
        _log.warning("cannot remove what a container has left: %s", error)
