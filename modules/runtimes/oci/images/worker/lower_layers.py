"""The layers below the layer that is unpacked. Directories that a tar leaves out are taken from them."""

import os
import stat
from collections.abc import Sequence

from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.inside import is_whiteout, open_inside

_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LowerLayers:
    """Looks files up in layers, the uppermost first.

    Args:
        roots: descriptors of the layers' directories.
    """

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = roots

    def directory(self, path: tuple[bytes, ...]) -> int | None:
        """Open the directory at a path; None if the uppermost layer that has the path has no directory there."""
        for root in self._roots:
            try:
                found = open_inside(root, path)
            except ImageWorkError:
                return None
            if found is not None:
                return found
        return None

    def file(self, path: tuple[bytes, ...]) -> int | None:
        """Open the regular file at a path; None if there is none, or a layer above removed it."""
        for root in self._roots if path else ():
            try:
                within = open_inside(root, path[:-1])
            except ImageWorkError:
                return None
            if within is None:
                continue
            try:
                status = os.stat(path[-1], dir_fd=within, follow_symlinks=False)
                if is_whiteout(status) or not stat.S_ISREG(status.st_mode):
                    return None
                return os.open(path[-1], _OPEN_FILE, dir_fd=within)
            except FileNotFoundError:
                if _is_opaque(within):
                    return None
            finally:
                os.close(within)
        return None


def _is_opaque(directory: int) -> bool:
    return "trusted.overlay.opaque" in os.listxattr(directory)
