"""Tar archives between this machine and a container, of which neither is trusted with more than the copied files."""

from __future__ import annotations

import shutil
import tarfile
from typing import IO, TYPE_CHECKING, Final, Self

from modules.processes.edgecore.local.errors import NodeError

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


def extract(stream: IO[bytes], target: Path, skipped: Callable[[str], None], *, preserve: bool = True) -> int:
    """Extract an archive with one member, a file or a directory with all below it, and return how many there were.

    Members are placed below the target or nowhere (tarfile's data filter): no paths that lead out, no devices, no
    owners, no set-user-id. Links are not made, as by `kubectl cp`.

    Args:
        stream: the archive.
        target: path of the member's copy; a file goes into a directory that exists.
        skipped: called with the name of each member that is no file and no directory.
        preserve: whether times and modes are kept.

    Raises:
        NodeError: the archive is damaged, leads out of the target, or the disk has no room for it.
        SourceIsLinkError: the member is a symbolic link.
        OSError: a file cannot be written.
    """
    count = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedTarInfo) as archive:
            for member in archive:
                inside = "/".join(part for part in member.name.split("/") if part not in ("", "."))
                below = inside.partition("/")[2]
                if not below and member.issym():
                    raise SourceIsLinkError
                count += 1
                if count > MOST_MEMBERS:
                    raise NodeError(f"more than {MOST_MEMBERS} files", hint="copy parts of the directory")
                if not (member.isreg() or member.isdir()):
                    skipped(member.name)
                    continue
                _extract_one(archive, member, inside, target, preserve=preserve)
    except tarfile.FilterError as error:
        raise NodeError("the container's archive leads elsewhere", str(error), "nothing more was copied") from error
    except tarfile.TarError as error:
        raise NodeError("the container's archive cannot be read", "", str(error)) from error
    return count


def _extract_one(
    archive: tarfile.TarFile, member: tarfile.TarInfo, inside: str, target: Path, *, preserve: bool
) -> None:
    name, _, below = inside.partition("/")
    directory, path = target, below
    if not below and member.isreg():
        directory, path = (target, name) if target.is_dir() else (target.parent, target.name)
    elif not below:
        target.mkdir(exist_ok=True)
        return
    if member.size > (free := shutil.disk_usage(directory).free):
        raise NodeError("no room for", member.name, f"it has {member.size} bytes, and {free} are free")
    one = tarfile.data_filter(member.replace(name=path, deep=False), str(directory))
    archive.extract(one, directory, set_attrs=preserve, filter="fully_trusted")


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
