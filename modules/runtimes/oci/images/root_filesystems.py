"""Root file systems of containers: overlays of an image's layers and a writable layer, or copies of the layers."""

import errno
import logging
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import is_mounted
from beehive.files.removal import remove_tree
from beehive.files.walking import Walk
from beehive.node_namespaces import namespaces_id
from beehive.patterns import pattern
from modules.runtimes.oci.images.copied_roots import copy_layers
from modules.runtimes.oci.images.declared_volumes import DECLARED
from modules.runtimes.oci.images.errors import RunFailedError
from modules.runtimes.oci.images.idmapping import MappedRoot, id_mapped, unmount_mapped
from modules.runtimes.oci.images.model import StorageUsage
from modules.runtimes.oci.images.store import ImageStore
from modules.runtimes.shim.kernel import MNT_DETACH, MS_RDONLY, mount, unmount

_log = logging.getLogger(__name__)

_OPTIONS_LIMIT: Final = 4095
"""Bytes of options that mount(2) takes: a page with its end."""
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN: Final = pattern(r"[\w/.-]+", re.ASCII)
"""Paths that need no escape in the options."""
_VOLATILE: Final = ",volatile"
"""The option with which a flush in a container, and the end of a mount, flush nothing (Linux 5.10). Otherwise each end
flushes all files of the disk. After a power cut no container goes on with its writable layer.
"""
_SECTOR: Final = 512
_PASSING: Final = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
"""Errors that say nothing about overlays."""
_MOST_MOUNTS: Final = 16
"""Mounts on one directory that `unmount` undoes."""


class RootFilesystems:
    """The mounts of images for containers. Thread-safe for different directories.

    A container's directory gets `rootfs`, the mount point, `upper`, the writable layer, and `work`, overlayfs' own. A
    mount survives edgecore, and not the machine.

    Where the kernel, or the file system of the store, has no overlays, `rootfs` is no mount but a copy of the layers.

    Args:
        store: has the layers.
        mounted: files, and with a `/` at the end directories, on which every container has a mount, relative to its
            root. They are in the lowest layer: otherwise the OCI runtime makes those that the image lacks in the
            writable one, with a copy of the image's `etc`.

    Raises OSError.
    """

    def __init__(self, store: ImageStore, mounted: Collection[str] = ()) -> None:
        self._store = store
        self._layout = store.layout
        self._lowest = [_mount_points(self._layout.root / "mount-points", mounted)] if mounted else []
        self._has_overlays: bool | None = None
        self._volatile = ""

    @property
    def has_overlays(self) -> bool:
        """Whether overlays can be mounted here, by a trial; False if containers get copies of their images."""
        if self._has_overlays is None:
            self._volatile = _VOLATILE if _try_overlay(self._layout.root, _VOLATILE) else ""
            self._has_overlays = bool(self._volatile) or _try_overlay(self._layout.root)
            if not self._has_overlays:
                _log.warning('there are no overlays in "%s": each container copies its image', self._layout.root)
        return self._has_overlays

    def mount(self, image_id: str, directory: Path, root: MappedRoot | None = None, label: str = "") -> Path:
        """Mount an image with a writable layer in `directory`, which exists; return the mount point.

        A mount that is there already stays. The image must be held (`ImageStore.hold`). With `root`, files belong to
        the users of its namespace; with `label` they have this SELinux label.

        Raises:
            NoSuchObjectError: the image is not in the store.
            RunFailedError: the machine refuses the mount.
        """
        target = self._mount_point(directory)
        if not self.has_overlays:
            self._copy(image_id, target, is_plain=root is None and not label)
        elif not is_mounted(target):
            layers = self._layers(image_id) + self._lowest
            upper, work = f"{directory}/upper", f"{directory}/work"
            with suppress(FileExistsError):
                os.mkdir(upper)  # noqa: PTH102 - strings: this is done for each container
            try:
                os.mkdir(work)  # noqa: PTH102 - as above
            except FileExistsError:  # with the mark of a volatile mount, which the kernel makes once
                remove_tree(Path(work))
                os.mkdir(work)  # noqa: PTH102 - as above
            os.chmod(upper, 0o755)  # noqa: PTH101, S103 - as above; it is the container's /
            if root is not None:
                os.chown(upper, root.uid, root.gid)
            context = f',context="{label}"' if label else ""
            _mount_overlay(layers, target, directory, root, self._volatile + context)
        return target

    def mount_image(self, image_id: str, directory: Path, root: MappedRoot | None = None) -> Path:
        """Mount an image read-only at `directory`/rootfs, for an image volume; return the mount point.

        Raises as `mount`.
        """
        target = self._mount_point(directory)
        if not self.has_overlays:
            self._copy(image_id, target, is_plain=root is None)
        elif not is_mounted(target):
            layers = self._layers(image_id)
            _mount_overlay([*layers, self._empty()] if len(layers) < 2 else layers, target, None, root)
        return target

    def unmount(self, directory: Path) -> None:
        """Unmount what `mount` or `mount_image` mounted; the writable layer stays. No error if nothing is mounted.

        Raises RunFailedError.
        """
        target = directory / "rootfs"
        try:
            for _ in range(_MOST_MOUNTS):
                if not is_mounted(target):
                    break
                try:
                    unmount(str(target))
                except OSError:
                    unmount(str(target), MNT_DETACH)
            _remove_mount_point(target)
            unmount_mapped(directory)
        except OSError as error:
            raise RunFailedError(f'unmount "{target}"', error.strerror or str(error)) from error

    def remove(self, directory: Path) -> None:
        """Unmount, and remove the directory with the writable layer. Raises RunFailedError."""
        self.unmount(directory)
        try:
            remove_tree(directory)
        except OSError as error:
            raise RunFailedError(f'remove "{directory}"', error.strerror or str(error)) from error

    def usage(self, directory: Path) -> StorageUsage:
        """Return the disk usage of the writable layer, or of the copy, or zero. Walks the trees.

        Volumes that the image declares count too, and blocks that a copy shares with the image.
        """
        size, inodes = 0, 0
        linked: set[int] = set()
        own = directory / "upper" if (directory / "upper").is_dir() else directory / "rootfs"
        for status in _statuses(own, directory / DECLARED):
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if status.st_ino in linked:
                    continue
                linked.add(status.st_ino)
            size += status.st_blocks * _SECTOR
            inodes += 1
        return StorageUsage(size, inodes)

    def _copy(self, image_id: str, target: Path, *, is_plain: bool) -> None:
        """Copy an image's layers, unless they are there. Raises RunFailedError."""
        attempt = f'copy the root file system "{target}"'
        if not is_plain:
            hint = "use a kernel with overlayfs, and a directory on a file system such as ext4"
            raise RunFailedError(attempt, "hostUsers: false and SELinux labels need overlayfs, which fails here", hint)
        if any(target.iterdir()):
            return
        try:
            copy_layers(self._layers(image_id), target)
        except OSError as error:
            hint = "free some space on the node" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise RunFailedError(attempt, error.strerror or str(error), hint) from error

    def _mount_point(self, directory: Path) -> Path:
        target = directory / "rootfs"
        target.mkdir(mode=0o755, exist_ok=True)
        return target

    def _layers(self, image_id: str) -> list[Path]:
        """Return the directories of an image's layers, the uppermost first."""
        chain = self._store.get(image_id).chain
        return [self._layout.tree(each) for each in reversed(chain)] or [self._empty()]

    def _empty(self) -> Path:
        """Return a directory without files: overlayfs wants something below."""
        path = self._layout.root / "empty"
        path.mkdir(mode=0o755, exist_ok=True)
        return path


def _statuses(*tops: Path) -> Iterator[os.stat_result]:
    """Yield the statuses of all entries below directories; none of a missing one."""
    for top in tops:
        with suppress(OSError):
            for found in Walk(top):
                with suppress(OSError):
                    yield found.entry.stat(follow_symlinks=False)


def _mount_points(top: Path, paths: Collection[str]) -> Path:
    """Return the directory `top`, made anew unless it has these files and directories."""
    if not all((top / each).is_dir() if each.endswith("/") else (top / each).is_file() for each in paths):
        remove_tree(top)
        for directory, _, name in (each.rpartition("/") for each in paths):
            (top / directory).mkdir(parents=True, exist_ok=True)
            (top / directory).chmod(0o755)  # it is /etc in an image that has none
            if name:
                (top / directory / name).touch(mode=0o644)
    return top


def _try_overlay(directory: Path, more: str = "") -> bool:
    """Return whether an overlay can be mounted below a directory, with more options; the trial leaves nothing.

    Raises RunFailedError if that is not known, because the machine is short of something.
    """
    with tempfile.TemporaryDirectory(prefix="trial-", dir=directory) as name:
        parts = {each: Path(name) / each for each in ("lower", "upper", "work", "rootfs")}
        for part in parts.values():
            part.mkdir()
        try:
            _mount_overlay([parts["lower"]], parts["rootfs"], Path(name), None, more)
        except RunFailedError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _PASSING:
                raise
            return False
        unmount(str(parts["rootfs"]), MNT_DETACH)
        return True


def _remove_mount_point(target: Path) -> None:
    """Remove an empty mount point; a copy stays, as a writable layer does. Raises OSError."""
    try:
        target.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise


def _mount_overlay(
    layers: list[Path], target: Path, directory: Path | None, root: MappedRoot | None, more: str = ""
) -> None:
    """Mount layers by their paths, or by descriptors if those do not fit into mount's options or have a colon, with
    more options, each after a comma.
    """
    attempt = f'mount the root file system "{target}"'
    try:
        with ExitStack() as opened:
            if root is not None and root.namespace is not None:
                layers = opened.enter_context(id_mapped(layers, root.namespace, target.parent))
            paths = [*layers, *([] if directory is None else [directory])]
            names = [str(path) for path in paths]
            options = _options(names, is_writable=directory is not None)
            if len(options) > _OPTIONS_LIMIT or not all(map(_PLAIN.fullmatch, names)):
                named = [_named(path, opened) for path in paths]
                options = _options(named, is_writable=directory is not None)
            options += more
            if len(options) > _OPTIONS_LIMIT:
                raise RunFailedError(attempt, f"the image has {len(layers)} layers, too many for overlayfs")
            mount("overlay", str(target), "overlay", 0 if directory else MS_RDONLY, options)
    except OSError as error:
        hint = "overlayfs needs a kernel with it, and a directory on a local file system such as ext4"
        if root is not None and root.namespace is not None:
            hint = "user namespaces need Linux 5.19, and images on a file system with id-mapped mounts, such as ext4"
        raise RunFailedError(attempt, error.strerror or str(error), hint) from error


def _options(paths: list[str], *, is_writable: bool) -> str:
    """Return the options for layers and, last, the directory with the writable layer.

    In a user namespace overlayfs takes no `metacopy`. Without `userxattr` it would mount as well, and overlook its
    marks.
    """
    if not is_writable:
        return "lowerdir=" + ":".join(paths) + (",userxattr" if namespaces_id() else "")
    *lower, own = paths
    return f"lowerdir={':'.join(lower)},upperdir={own}/upper,workdir={own}/work,index=off" + (
        ",userxattr" if namespaces_id() else ",metacopy=off"
    )


def _named(path: Path, opened: ExitStack) -> str:
    descriptor = os.open(path, _DIRECTORY)
    opened.callback(os.close, descriptor)
    return f"/proc/self/fd/{descriptor}"
