"""The directories of a container for the volumes that its image declares, with the image's files there.

They are in `declared-volumes` of the container's directory, and go with it.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from beehive.files.descriptors import OwnedFd
from beehive.files.removal import remove_tree
from beehive.files.walking import Walk
from modules.runtimes.oci.images.copied_roots import CopyBudget, copy_tree
from modules.runtimes.oci.images.errors import BadRequestError, RunFailedError
from modules.runtimes.oci.images.idmapping import MappedRoot
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.inside import OPEN_DIRECTORY, StepBudget, open_inside
from modules.runtimes.oci.images.worker.limits import GIB

DECLARED: Final = "declared-volumes"
"""Name in a container's directory."""

_STEPS: Final = 200_000
"""Components of paths that may be entered for all volumes of one container."""
_OWNER_ONLY: Final = 0o700
_MODE: Final = 0o755
_LABEL: Final = "security.selinux"


class VolumeLimits(NamedTuple):
    """Bounds of the copied files of all volumes of one container."""

    entries: int = 200_000
    bytes: int = 4 * GIB


class ImageRoot(msgspec.Struct, frozen=True):
    """The root file system of a container that has not run.

    Args:
        path: where it is mounted.
        root: the owner of its files; None for the machine's root.
        label: SELinux label of its files, or "".
    """

    path: Path
    root: MappedRoot | None = None
    label: str = ""


def make_declared_volumes(
    directory: Path, image: ImageRoot, paths: Sequence[str], limits: VolumeLimits | None = None
) -> dict[str, Path]:
    """Make a directory for each of some paths in a root file system; return them by path.

    Files are copied with owners and modes. Links on the way to a path stay inside the root. Directories of an
    interrupted start are removed.

    Args:
        directory: the container's.
        image: the root file system.
        paths: of the volumes, absolute.
        limits: of the copied files.

    Raises:
        BadRequestError: the image has something else than a directory there.
        RunFailedError: there is no space, or too much to copy.
    """
    entries, size = limits or VolumeLimits()
    budget, steps = CopyBudget(entries, size), StepBudget(_STEPS)
    top = directory / DECLARED
    try:
        remove_tree(top)
        top.mkdir(mode=_OWNER_ONLY)
        with OwnedFd(os.open(image.path, OPEN_DIRECTORY)) as root:
            return {
                path: _make(top / str(number), _opened(root, path, steps), image, budget)
                for number, path in enumerate(paths)
            }
    except OSError as error:
        hint = "free some space on the node" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise RunFailedError("make the volumes of the image", error.strerror or str(error), hint) from error


def _opened(root: int, path: str, steps: StepBudget) -> int | None:
    try:
        return open_inside(root, os.fsencode(path).split(b"/"), steps)
    except ImageWorkError as error:
        reason = f'the image has no directory at its volume "{path[:200]}": {error.reason}'
        raise BadRequestError("make the volumes of the image", reason, error.hint) from error


def _make(target: Path, source: int | None, image: ImageRoot, budget: CopyBudget) -> Path:
    if source is None:
        target.mkdir()
        target.chmod(_MODE)
        if image.root is not None:
            os.chown(target, image.root.uid, image.root.gid)
    else:
        with OwnedFd(source):
            copy_tree(source, target, budget)
    if image.label:
        _label(target, image.label.encode())
    return target


def _label(directory: Path, label: bytes) -> None:
    os.setxattr(directory, _LABEL, label)
    for found in Walk(directory):
        os.setxattr(f"/proc/self/fd/{found.within}/{found.entry.name}", _LABEL, label, follow_symlinks=False)
