"""Mounts on the node itself: memory for a pod, a directory shown in another place, and the table of mounts."""

import errno
import os
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from beehive.patterns import pattern
from edged.errors import VolumeError

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = pattern(rb"\\([0-7]{3})")
"""/proc's escapes of blanks and backslashes in a path."""

_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_NOFOLLOW = 0x8
"""Flag of umount2: do not follow a link in the last component."""


class Mounts(Protocol):
    """The operations on mounts that edged uses. Each call raises VolumeError, which is retryable.

    The kernel's table is the only record of the mounts: a later agent finds the mounts to remove in it. Everything goes
    through this class, so that a simulated or replayed node touches no machine.
    """

    def below(self, *directories: Path) -> list[Path]:
        """Return the mount points below some directories, whose paths must contain no link, in the order of mounting; a
        point that is mounted over appears twice.
        """

    def has(self, point: Path) -> bool:
        """Return whether something is mounted at exactly this path, which must contain no link."""

    def tmpfs(self, target: Path, size: int, *, mode: int = 0o1777, group: int = 0) -> None:
        """Mount memory at a directory; its content is kept out of swap where the kernel can (6.4 and later; kubelet's
        noswap).

        Args:
            target: the directory.
            size: in bytes, 0 for the kernel's default limit (half of the memory).
            mode: of the new root directory.
            group: id of its group.
        """

    def bind(self, source: Path, target: Path) -> None:
        """Bind a directory or file, with the mounts below it, to another of its kind."""

    def unmount(self, *targets: Path) -> None:
        """Undo the last mount at each point, in this order; mounts in the directories that were bound to the points
        stay. Raises the first error when all were tried.
        """


class MountTable:
    """The kernel's table of mounts, which takes it a millisecond on a node with some pods: many of them are removed at
    the same time, and one reading serves all who wait for it.

    Args:
        read: reads the table.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self.asked = 0
        """Calls so far."""
        self._read = read
        self._counting = threading.Lock()
        self._reading = threading.Lock()
        self._served = 0
        self._content = b""

    def content(self) -> bytes:
        """Return the table, read after the begin of this call."""
        with self._counting:
            self.asked += 1
            number = self.asked
        with self._reading:
            if self._served < number:
                served = self.asked
                self._content = self._read()
                self._served = served
            return self._content


class KernelMounts:
    """The machine's own mounts (`Mounts`), by calls of the C library."""

    def __init__(self) -> None:
        self._table = MountTable(lambda: _TABLE.read_bytes())  # noqa: PLW0108 - looked up when it is called

    def below(self, *directories: Path) -> list[Path]:
        """See `Mounts`. Only lines with the directories' names are split."""
        wanted = tuple(_escaped(os.fsencode(each)).rstrip(b"/") + b"/" for each in directories)
        table = self._table.content()
        named = tuple(each for each in wanted if each in table)
        if not named:
            return []
        lines = (line.split(b" ", 5) for line in table.splitlines() if any(each in line for each in named))
        found = [line[4] for line in lines if line[4].startswith(named)]
        return [Path(os.fsdecode(_ESCAPED.sub(_unescaped, point))) for point in found]

    def has(self, point: Path) -> bool:
        """See `Mounts`. Called in each sync of a pod for each volume in memory, so only lines with its name are
        split.
        """
        wanted = _escaped(os.fsencode(point))
        table = self._table.content()
        return wanted in table and any(line.split(b" ")[4] == wanted for line in table.splitlines() if wanted in line)

    def tmpfs(self, target: Path, size: int, *, mode: int = 0o1777, group: int = 0) -> None:
        """See `Mounts`."""
        options = f"mode={mode:o},gid={group}" + (f",size={size}" if size else "")
        for more in (",noswap", ""):
            try:
                _mount_tmpfs(target, options + more)
            except VolumeError as error:
                if not more or getattr(error.__cause__, "errno", 0) != errno.EINVAL:
                    raise
            else:
                return

    def bind(self, source: Path, target: Path) -> None:
        """See `Mounts`."""
        _call("bind a volume", target, "mount", os.fsencode(source), os.fsencode(target), None, _BIND | _REC, None)

    def unmount(self, *targets: Path) -> None:
        """See `Mounts`. The kernel would undo a mount below a bound directory in the shared mount that it comes from,
        too.
        """
        for each in targets:
            if set(targets).isdisjoint(each.parents):
                with suppress(VolumeError):  # it has gone: the next call says so
                    _call("part a volume", each, "mount", None, os.fsencode(each), None, _REC | _PRIVATE, None)
        _try_all(lambda each: _call("unmount a volume", each, "umount2", os.fsencode(each), _NOFOLLOW), targets)


class MemoryMounts:
    """Mounts that are only recorded (`Mounts`): for a simulated or replayed node, and for tests."""

    def __init__(self) -> None:
        self.mounted: list[tuple[str, Path, object]] = []
        """Kind, point, and size or source, in the order of mounting."""

    def below(self, *directories: Path) -> list[Path]:
        """See `Mounts`."""
        return [point for _, point, _ in self.mounted if not set(directories).isdisjoint(point.parents)]

    def has(self, point: Path) -> bool:
        """See `Mounts`."""
        return any(mounted == point for _, mounted, _ in self.mounted)

    def tmpfs(self, target: Path, size: int, *, mode: int = 0o1777, group: int = 0) -> None:  # noqa: ARG002
        """See `Mounts`."""
        self.mounted.append(("tmpfs", target.resolve(), size))

    def bind(self, source: Path, target: Path) -> None:
        """See `Mounts`."""
        self.mounted.append(("bind", target.resolve(), source.resolve()))

    def unmount(self, *targets: Path) -> None:
        """See `Mounts`."""
        _try_all(self._unmount, targets)

    def _unmount(self, target: Path) -> None:
        last = next((mount for mount in reversed(self.mounted) if mount[1] == target), None)
        if last is None:
            raise VolumeError("unmount a volume", str(target), "it is not mounted", retryable=True)
        self.mounted.remove(last)


def points_below(mounts: Mounts, *directories: Path) -> list[Path]:
    """Return the mount points below some directories, at any depth; the last first, the order to unmount them in."""
    return mounts.below(*(each.resolve() for each in directories))[::-1]


def is_mounted(mounts: Mounts, path: Path) -> bool:
    """Return whether something is mounted at exactly this path."""
    return mounts.has(path.resolve())


def _try_all(unmount: Callable[[Path], None], targets: Iterable[Path]) -> None:
    """Unmount all the points; raise the first error: memory must not wait for a point that a process uses."""
    problem: VolumeError | None = None
    for each in targets:
        try:
            unmount(each)
        except VolumeError as error:
            problem = problem or error
    if problem is not None:
        raise problem


def _mount_tmpfs(target: Path, options: str) -> None:
    _call("mount memory", target, "mount", b"tmpfs", os.fsencode(target), b"tmpfs", 0, options.encode())


def _call(attempt: str, on: Path, function: str, *arguments: Any) -> None:
    """Call the C library. It is loaded with the first mount, because most nodes of this kind never need it."""
    import ctypes  # noqa: PLC0415 - see above

    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments) == 0:
        return
    number = ctypes.get_errno()
    hint = "mounting needs root" if number == 1 else f"the kernel says: {os.strerror(number)}"
    error = VolumeError(attempt, str(on), hint, retryable=True)
    error.__cause__ = OSError(number, os.strerror(number), str(on))
    raise error


def _escaped(path: bytes) -> bytes:
    """Return the path with /proc's escapes."""
    return re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % found[0][0], path)


def _unescaped(code: re.Match[bytes]) -> bytes:
    return bytes([int(code[1], 8)])
