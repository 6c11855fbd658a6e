"""Files that all change together: readers of the volume see the old set or the new one, never a mix.

The layout is kubelet's (AtomicWriter), because programs in containers rely on it:

    ..2026_11_20_01_54_50.1/greeting     the files of one version
    ..data -> ..2026_11_20_01_54_50.1    the version in force; replaced by one rename
    greeting -> ..data/greeting          the name for readers

A crash between any two steps leaves the old or the new version in force; the next write cleans up.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from beehive.files.durable import make_directories
from beehive.files.opening import opener_with
from beehive.files.removal import remove_tree
from beehive.files.walking import Walk
from beehive.node_namespaces import give_to_pods, pod_id
from edged.volumes.directories import make_directory
from edged.volumes.payload import Payload, VolumeFile
from modules.apimachinery.types import Nanoseconds

DATA = "..data"
_NEXT = "..data_tmp"
_HIDDEN = ".."
_OPEN = 0o755
"""Mode of a version's directories, despite the umask: containers run as other users."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AtomicWriter:
    """A writer that keeps one directory equal to a payload.

        AtomicWriter(volume).write({"greeting": VolumeFile(b"hello")}, now)

    Args:
        directory: the volume; it must exist, and have no other writer.
        prepare: called with a new version's directory before it comes into force, to set owners.
        mount_points: directories to make for mounts within the volume; they hide files of their names.
    """

    def __init__(
        self, directory: Path, prepare: Callable[[Path], None] | None = None, mount_points: Iterable[str] = ()
    ) -> None:
        self._directory = directory
        self._prepare = prepare
        self._mount_points = tuple(mount_points)

    def write(self, payload: Payload, now: Nanoseconds) -> bool:
        """Make the directory hold exactly the payload's files; return False when it already does.

        Paths must have passed `safe_path`. Raises OSError as the file system does; then the old version stays in force.
        """
        current = self._current()
        changed = current is None or not _holds(current, payload)
        if changed:
            current = self._new_version(payload, now)
            self._put_in_force(current)
        self._make_mount_points()
        self._show(payload)
        self._clean(payload, current)
        return changed

    def _current(self) -> Path | None:
        """Return the directory of the version in force; only a link within the volume counts."""
        try:
            name = str((self._directory / DATA).readlink())
        except OSError:
            return None
        version = self._directory / name
        within = name.startswith(_HIDDEN) and "/" not in name and name != _HIDDEN
        return version if within and version.is_dir() else None

    def _new_version(self, payload: Payload, now: Nanoseconds) -> Path:
        """Write a version. An incomplete one is removed immediately: retries on a full disk would pile them up."""
        version = self._make_directory(now)
        try:
            for path, file in payload.items():
                _write_file(version / path, file)
            version.chmod(_OPEN)
            give_to_pods(version)
            for found in Walk(version):
                if found.entry.is_dir(follow_symlinks=False):
                    os.chmod(found.entry.name, _OPEN, dir_fd=found.within)
                give_to_pods(found.entry.name, found.within)
            if self._prepare is not None:
                self._prepare(version)
        except BaseException:
            with suppress(OSError):
                remove_tree(version)
            raise
        return version

    def _make_directory(self, now: Nanoseconds) -> Path:
        moment = (_EPOCH + timedelta(microseconds=now // 1000)).strftime("..%Y_%m_%d_%H_%M_%S")
        number = 1
        while True:
            version = self._directory / f"{moment}.{number}"
            with suppress(FileExistsError):
                version.mkdir(mode=0o700)
                return version
            number += 1

    def _put_in_force(self, version: Path) -> None:
        following = self._directory / _NEXT
        following.unlink(missing_ok=True)
        following.symlink_to(version.name)
        give_to_pods(following)
        following.replace(self._directory / DATA)

    def _make_mount_points(self) -> None:
        """Make the missing mount points; one below a link is in a version, where no directory would stay."""
        for point in self._mount_points:
            path = self._directory
            for name in point.split("/"):
                path /= name
                if path.is_symlink():
                    break
                if not os.path.lexists(path):
                    make_directory(path, _OPEN)

    def _show(self, payload: Payload) -> None:
        """Make a link at the top for the first component of each path; correct links and mount points are kept."""
        mounted = _tops(self._mount_points)
        for name in _tops(payload):
            link = self._directory / name
            target = Path(DATA, name)
            if link.is_symlink() and link.readlink() == target:
                continue
            if name in mounted and link.is_dir() and not link.is_symlink():
                continue
            remove_tree(link)
            link.symlink_to(target)
            give_to_pods(link)

    def _clean(self, payload: Payload, current: Path | None) -> None:
        """Remove links to missing files, and versions that are no longer in force. Other files and directories are
        mount points: the kernel would end the mounts of running containers with them.
        """
        keep = _tops(payload) | {DATA} | ({current.name} if current else set())
        for entry in list(self._directory.iterdir()):
            if entry.name not in keep and (entry.is_symlink() or entry.name.startswith(_HIDDEN)):
                remove_tree(entry)


def _write_file(path: Path, file: VolumeFile) -> None:
    """Write a new file with exactly its mode, in the directory of a version without readers yet."""
    make_directories(path.parent, 0o700)
    with open(path, "xb", opener=opener_with()) as stream:
        stream.write(file.data)
        os.fchmod(stream.fileno(), file.mode)
        if file.owner is not None and os.geteuid() == 0:  # without root, containers run as the agent's own user
            os.fchown(stream.fileno(), pod_id(file.owner), -1)


def _holds(version: Path, payload: Payload) -> bool:
    """Return whether a version consists of exactly these files, contents and modes."""
    present = sum(not found.entry.is_dir(follow_symlinks=False) for found in Walk(version))
    return present == len(payload) and all(_is_file(version / path, file) for path, file in payload.items())


def _is_file(path: Path, file: VolumeFile) -> bool:
    """Return whether a path is exactly this file. One that a worn disk cannot read is not."""
    try:
        found = path.lstat()
        same_owner = file.owner is None or os.geteuid() != 0 or found.st_uid == pod_id(file.owner)
        same_mode = found.st_mode & 0o777 == file.mode and same_owner
        return same_mode and found.st_size == len(file.data) and path.read_bytes() == file.data
    except OSError:
        return False


def _tops(paths: Iterable[str]) -> set[str]:
    return {path.partition("/")[0] for path in paths}
