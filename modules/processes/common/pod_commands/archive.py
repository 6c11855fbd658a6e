"""Tar archives between this machine and a container. Neither side may reach more than the copied files."""

from __future__ import annotations

import os
import shutil
import tarfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, Self

from modules.processes.common.pod_commands.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONGEST_HEADER: Final = 1 << 20
"""Bytes of a name or of other attributes of one member; they are held in memory."""
MOST_MEMBERS: Final = 1_000_000
"""Files and directories of one archive."""

_LONG_HEADERS: Final = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip


class SourceIsLinkError(Exception):
    """The archive's only member is a symbolic link."""


class _BoundedTarInfo(tarfile.TarInfo):
    """A header whose further attributes are bounded."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        """Read a header."""
        info = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
        if info.type in _LONG_HEADERS and info.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {info.size} bytes")
        return info


def extract(stream: IO[bytes], target: Path, skipped: Callable[[str], None], *, preserve: bool = True) -> None:
    """Extract an archive with one file or one directory tree.

    The file or directory becomes the target, whatever its name, and the members below it go below the target: no path
    may lead out of it, also not by links of this machine. No devices, owners and set-user-id bits are taken over, and
    links are not made, as by `kubectl cp`. tarfile's own filter is not in every Python 3.11.

    Args:
        stream: the archive.
        target: path of the member's copy.
        skipped: called with the name of each member that is no file and no directory.
        preserve: whether times and modes of files are kept.

    Raises:
        NodeError: the archive is damaged, leads out of the target, or the disk has no room for it.
        SourceIsLinkError: the member is a symbolic link.
        OSError: a file cannot be written.
    """
    count = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedTarInfo) as archive:
            for member in archive:
                count += 1
                if count > MOST_MEMBERS:
                    raise NodeError(f"more than {MOST_MEMBERS} files", hint="copy parts of the directory")
                path = _path_of(member, target)
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                elif member.isreg():
                    _extract_file(archive, member, path, preserve=preserve)
                elif path == target and member.issym():
                    raise SourceIsLinkError
                else:
                    skipped(member.name)
    except (tarfile.TarError, ValueError) as error:
        raise NodeError("the container's archive cannot be read", "", str(error)) from error


def _path_of(member: tarfile.TarInfo, target: Path) -> Path:
    """Return the path of a member's copy. Raises NodeError if it leads out of the target."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    path = target.joinpath(*parts[1:])
    base = os.path.realpath(target)
    if ".." in parts or os.path.commonpath([base, os.path.realpath(path)]) != base:
        raise NodeError("the container's archive leads elsewhere", member.name, "nothing more was copied")
    return path


def _extract_file(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path, *, preserve: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.size > (free := shutil.disk_usage(path.parent).free):
        raise NodeError("no room for", member.name, f"it has {member.size} bytes, and {free} are free")
    content = archive.extractfile(member)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file)
        if preserve:
            os.fchmod(file.fileno(), member.mode & 0o755 | 0o600)
    if preserve:
        with suppress(OverflowError, ValueError):
            os.utime(path, (member.mtime, member.mtime))


def pack(source: Path, name: str, stream: IO[bytes], skipped: Callable[[str], None]) -> None:
    """Write a file or a directory with all below it into an archive.

    Args:
        source: the file or directory.
        name: its name in the archive.
        stream: where the archive goes.
        skipped: called with the name of each member that is no file, directory or link.

    Raises:
        OSError: a file cannot be read, or the archive cannot be written.
    """

    def chosen(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.isreg() or member.isdir() or member.issym() or member.islnk():
            return member
        skipped(member.name)
        return None

    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source, name, filter=chosen)
