"""The file of a backup: a tar.gz whose first member, `manifest.json`, names all others with size and SHA-256.

A file that is read may be truncated, damaged or hostile. No path in it is used: members have the names that the
program asks for, and their contents are written to a directory of their own until all are complete.
"""

import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from beehive.files.advice import advice
from beehive.files.durable import make_directories, put_in_place
from beehive.files.opening import opener_with
from beehive.whole_numbers import whole_number
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.backup.scratch import scratch_for_a_backup
from modules.processes.common.version import VERSION
from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.tar_entries import FILE, Entry, TarEntries
from modules.runtimes.oci.images.worker.tar_stream import BLOCK, TarStream

FORMAT: Final = 1
"""Version of the form. A file of a newer one is refused."""

OWNER_ONLY: Final = 0o600
_MANIFEST: Final = "manifest.json"
_LARGEST_MANIFEST: Final = 1024 * 1024
_MOST_PARTS: Final = 4096
LARGEST_FILE: Final = 16 * 1024 * 1024
"""Bytes of a member that is no database."""
LARGEST_DATABASE: Final = 16 * 1024 * 1024 * 1024
_SPARE: Final = 16 * 1024 * 1024
"""Bytes of the disk that a restore leaves free."""
_PIECE: Final = 256 * 1024
_BUSY_SECONDS: Final = 30.0
ANY_SIZE: Final = UnpackLimits(size=1 << 62, ratio=1 << 62)
"""No limits: the manifest has the sizes of the parts."""
_MOST_PADDING: Final = 1024 * 1024
"""Bytes after the last part."""
DAMAGED: Final = (ImageWorkError, UnicodeError, ValueError)
"""Errors of a tar that is damaged."""


class Part(NamedTuple):
    """A member to write."""

    name: str
    content: bytes | Path
    """Its content, or the file that has it."""


class PartEntry(msgspec.Struct, frozen=True):
    """A member in the manifest."""

    name: str
    size: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, rename="camel"):
    """The first member."""

    format: int
    program: str
    """`edgecore` or `cloudcore`."""
    program_version: str
    node: str
    """Name of the node; empty for a cloud."""
    created: str
    """RFC 3339."""
    parts: tuple[PartEntry, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The members' names."""
        return frozenset(part.name for part in self.parts)


def write_archive(
    target: Path, manifest: BackupManifest, parts: Sequence[Part], what: str = "backup"
) -> BackupManifest:
    """Write a file with mode 0600, durably, and return its manifest. It is there completely or not at all.

    Args:
        target: the file.
        manifest: its head.
        parts: its members.
        what: it is, for errors.

    Raises:
        BackupError: there is a file of that name, or it cannot be written.
    """
    try:
        if os.path.lexists(target):
            raise BackupError(f"cannot write the {what}", str(target), "it exists; name a new file")
        complete = msgspec.structs.replace(manifest, parts=tuple(_entry(part) for part in parts))
        with scratch_for_a_backup(target, what) as scratch:
            making = scratch / target.name
            with open(making, "xb", opener=opener_with()) as file:
                with tarfile.open(fileobj=file, mode="w:gz") as tar:
                    _add(tar, _MANIFEST, io.BytesIO(text := msgspec.json.encode(complete)), len(text))
                    for part, entry in zip(parts, complete.parts, strict=True):
                        with _opened(part) as content:
                            _add(tar, part.name, content, entry.size)
                file.flush()
                os.fsync(file.fileno())
            put_in_place(making, target)
    except OSError as error:
        raise BackupError(f"cannot write the {what}", str(error.filename or target), advice(error)) from error
    return complete


def read_archive(source: Path, into: Path, program: str, wanted: Callable[[str], bool]) -> BackupManifest:
    """Extract a file into an empty directory, each member to its own path below, and verify it.

    Args:
        source: the file.
        into: the directory.
        program: the program that must have written it.
        wanted: whether a member of that name may be in it.

    Raises:
        BackupError: it is no backup of the program, damaged, of a newer version, or cannot be read.
    """
    try:
        with source.open("rb") as file:
            tar = TarStream(PlainBytes(file.read), ANY_SIZE, lambda: None)
            members = iter(TarEntries(tar, 2 * _MOST_PARTS))
            manifest = _manifest(tar, next(members, None), source)
            _check(manifest, source, program, wanted)
            check_room(into, sum(part.size for part in manifest.parts))
            extract_parts(tar, members, manifest.parts, into)
            read_end(tar)
    except OSError as error:
        raise BackupError("cannot read the backup", str(error.filename or source), advice(error)) from error
    except DAMAGED as error:
        raise _refused(source, f"it is truncated or damaged: {error}") from error
    return manifest


def check_room(directory: Path, size: int) -> None:
    """Check that a directory's file system has room for so many bytes more, before anything is written.

    Raises:
        BackupError: it has not.
    """
    free = shutil.disk_usage(directory).free
    if size + _SPARE > free:
        hint = f"{size + _SPARE >> 20} MiB are needed and {free >> 20} are free; nothing was changed"
        raise BackupError("there is no room for the files", str(directory), hint)


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite file consistently, also while a program writes to it.

    Raises:
        BackupError: it cannot be read or copied.
    """
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
        uri = f"{source.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise BackupError("cannot copy the database", str(source), str(error)) from error
    except OSError as error:
        raise BackupError("cannot copy the database", str(error.filename or source), advice(error)) from error


def check_database(path: Path) -> None:
    """Check that an SQLite file is whole.

    Raises:
        BackupError: it is not.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            found = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise BackupError("cannot restore the database", path.name, str(error)) from error
    if found != ("ok",):
        raise BackupError("cannot restore the database", path.name, "SQLite finds it damaged")


def _entry(part: Part) -> PartEntry:
    digest, size = hashlib.sha256(), 0
    with _opened(part) as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return PartEntry(part.name, size, digest.hexdigest())


def _opened(part: Part) -> IO[bytes]:
    return io.BytesIO(part.content) if isinstance(part.content, bytes) else part.content.open("rb")


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, OWNER_ONLY
    tar.addfile(member, content)


def _manifest(tar: TarStream, first: Entry | None, source: Path) -> BackupManifest:
    if first is None:
        raise ValueError("it has no member")
    if not is_plain_file(first) or first.name != _MANIFEST.encode() or first.stored > _LARGEST_MANIFEST:
        raise _refused(source, "it is no backup of edgecore or cloudcore")
    try:
        return decode_json(b"".join(tar.chunks(first.stored)), BackupManifest)
    except msgspec.DecodeError as error:
        raise _refused(source, f"its manifest cannot be read: {error}") from error


def _check(manifest: BackupManifest, source: Path, program: str, wanted: Callable[[str], bool]) -> None:
    if manifest.format > FORMAT or _release(manifest.program_version) > _release(VERSION):
        raise _refused(source, f"it is of {manifest.program} {manifest.program_version[:40]}, newer than {VERSION}")
    if manifest.program != program:
        raise _refused(source, f"it is of {manifest.program[:40]}, not of {program}")
    strange = [part.name for part in manifest.parts if not wanted(part.name) or part.size < 0]
    large = [part.name for part in manifest.parts if part.size > _largest(part.name)]
    if large:
        raise _refused(source, f"{large[0]} is larger than any backup's")
    if strange or len(manifest.names) != len(manifest.parts) or len(manifest.parts) > _MOST_PARTS:
        raise _refused(source, f"it has parts that no backup has: {', '.join(strange)[:200] or 'too many'}")


def _largest(name: str) -> int:
    return LARGEST_DATABASE if name.endswith(".db") else LARGEST_FILE


def is_plain_file(member: Entry) -> bool:
    """Return whether a member is a file with content, and no link, directory or sparse file."""
    return member.kind == FILE and member.layout is None


def extract_parts(tar: TarStream, members: Iterable[Entry], parts: Iterable[PartEntry], into: Path) -> None:
    """Write each member to its own path below a directory, which must be exactly these parts.

    Raises:
        ValueError: a member is missing, there is another one, or its content differs.
        ImageWorkError: the tar is damaged.
        OSError: a file cannot be written.
    """
    missing = {part.name: part for part in parts}
    for member in members:
        name = os.fsdecode(member.name)
        entry = missing.pop(name, None)
        if entry is None or not is_plain_file(member) or member.stored != entry.size:
            raise ValueError(f"unexpected member {name[:100]!r}")
        if _copy(tar.chunks(entry.size), into / entry.name) != entry.sha256:
            raise ValueError(f"{entry.name} differs from its SHA-256")
    if missing:
        raise ValueError(f"{next(iter(missing))} is missing")


def read_end(tar: TarStream) -> None:
    """Read the padding, after which gzip has its checksum. Raises ValueError if it has no end."""
    padding = 0
    while not tar.at_end():
        padding += len(tar.exactly(BLOCK))
        if padding > _MOST_PADDING:
            raise ValueError("it goes on after its end")


def _copy(content: Iterable[memoryview], target: Path) -> str:
    """Write a new file, durably; return its SHA-256."""
    make_directories(target.parent, 0o700)
    digest = hashlib.sha256()
    with open(target, "xb", opener=opener_with()) as file:
        for piece in content:
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _release(version: str) -> tuple[int, ...]:
    """Return the three numbers of a release; builds that lead to it (`.dev5`) have the same."""
    return tuple(whole_number(part) or 0 for part in version[:40].split(".")[:3])


def _refused(source: Path, why: str) -> BackupError:
    return BackupError("cannot restore the backup", str(source), why)
