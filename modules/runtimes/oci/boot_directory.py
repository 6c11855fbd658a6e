"""The directory of files that are worth nothing after the next boot of the machine. It is a tmpfs, like /run.

A container has a dozen such files and sockets, which edgecore, conmon and crun make at its start. On a disk each takes
an inode, and processor time for finding one.

    ROOT/runtime/               the tmpfs
    ROOT/runtime/BOOT/          the OCI runtime's own state
    ROOT/runtime/bundles/ID/    config.json, conmon's sockets and process ids; ROOT/containers/ID/bundle links to it
"""

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.reading import list_directory
from beehive.files.removal import remove_tree
from modules.runtimes.engine.records import current_boot_id
from modules.runtimes.oci.crun.conmon import BUNDLE
from modules.runtimes.shim import kernel

_log = logging.getLogger(__name__)

_RUNTIME: Final = "runtime"
_BUNDLES: Final = "bundles"
_OWNER_ONLY: Final = 0o700
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x2, 0x4, 0x8
_OPTIONS: Final = "mode=700,size=10%"
"""A tenth of the memory at most, as /run may take; a container needs some 50 KB."""


class BootDirectory:
    """The directory of one state directory. Thread-safe for different containers. It outlives edgecore.

    Args:
        root: the state directory.

    Raises OSError if it cannot be made.
    """

    def __init__(self, root: Path) -> None:
        self._directory = root / _RUNTIME
        self._bundles = self._directory / _BUNDLES
        self.states = self._directory / current_boot_id()
        """The OCI runtime's own directory."""
        self._directory.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        self._mount()
        for directory in (self.states, self._bundles):
            directory.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        for each in self._directory.iterdir():
            if each not in (self.states, self._bundles):  # of an earlier boot: it names processes that have ended
                remove_tree(each)

    def make_bundle(self, container: Path) -> None:
        """Make the bundle of a container's directory, unless it is there. Raises OSError."""
        with suppress(FileExistsError):
            os.mkdir(f"{self._bundles}/{container.name}", _OWNER_ONLY)  # noqa: PTH102 - strings: for each container
        with suppress(FileExistsError):  # an edgecore that kept bundles on the disk has made a directory
            os.symlink(f"../../{_RUNTIME}/{_BUNDLES}/{container.name}", f"{container}/{BUNDLE}")  # noqa: PTH211

    def remove_bundle(self, container_id: str) -> None:
        """Remove the bundle of a container; there may be none. Raises OSError."""
        remove_tree(self._bundles / container_id)

    def keep_only(self, known: set[str]) -> None:
        """Remove the bundles of containers that no longer exist. Raises OSError."""
        for left in {each.name for each in list_directory(self._bundles)} - known:
            self.remove_bundle(left)

    def remove(self) -> None:
        """Unmount it, when no container is left. Raises OSError."""
        try:
            kernel.unmount(str(self._directory), kernel.MNT_DETACH)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise

    def _mount(self) -> None:
        """Mount the tmpfs. The directory stays on the disk while containers run whose state is there."""
        if self._directory.is_mount() or self.states.exists():
            return
        try:
            kernel.mount("tmpfs", str(self._directory), "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, _OPTIONS)
        except OSError as error:
            _log.warning("the state of running containers is kept on the disk: %s", error)
