"""Mounts of root file systems for the root of a pod with its own users.

Only root may enter edgecore's directories, because images have set-user-id programs. The root of such a pod is another
user of the machine. So its root file system is mounted a second time, below a directory that this user may enter.
"""

import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.reading import list_directory
from beehive.node_namespaces import DIRECTORY, namespaces_id
from modules.runtimes.oci.leftovers import unmount_all, unmount_unknown
from modules.runtimes.shim import kernel

_TOP: Final = Path("/run/edgecore/roots")
_TOP_WITHOUT_ROOT: Final = DIRECTORY / "roots"
_PASSABLE: Final = 0o711
_GROUP_PASSES: Final = 0o710
_ROOTFS: Final = "rootfs"


class MappedRoots:
    """The second mounts of the containers of one state directory. Thread-safe for different containers.

    Args:
        state: the state directory, whose path names this runtime's among all of the machine.
    """

    def __init__(self, state: Path) -> None:
        self._top = _top()
        self.directory = self._top / hashlib.sha256(os.fsencode(state.resolve())).hexdigest()[:16]
        """Has a directory for each container with a second mount; exists only while needed."""
        self._lock = threading.Lock()
        """Held while `directory` is made or removed."""

    def bind(self, container_id: str, rootfs: Path, group: int) -> Path:
        """Mount a root file system again, for members of a group of the machine; return where. Raises OSError."""
        gate = self.directory / container_id
        target = gate / _ROOTFS
        with self._lock:
            try:
                target.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError:  # the purge of another state directory has called `remove_top` in between
                target.mkdir(parents=True, exist_ok=True)
            for directory in (self._top, self.directory):
                directory.chmod(_PASSABLE)
        os.chown(gate, 0, group)
        gate.chmod(_GROUP_PASSES)
        unmount_all(target)
        kernel.mount(str(rootfs), str(target), "none", kernel.MS_BIND)
        return target

    def unbind(self, container_id: str) -> None:
        """Undo `bind`, if the container has a mount. Raises OSError."""
        gate = self.directory / container_id
        if not gate.is_dir():
            return
        unmount_all(gate / _ROOTFS)
        for directory in (gate / _ROOTFS, gate):
            with suppress(FileNotFoundError):
                directory.rmdir()
        self._remove_if_empty()

    def keep_only(self, known: set[str]) -> None:
        """Undo `bind` of containers that no longer exist. Raises OSError."""
        unmount_unknown(self.directory, known)
        for left in {each.name for each in list_directory(self.directory)} - known:
            self.unbind(left)
        self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        with self._lock, suppress(OSError):  # it has other containers, there was none, or something resists
            self.directory.rmdir()


def remove_top() -> None:
    """Remove the directory above the mounts of all state directories, if it is empty."""
    with suppress(OSError):  # it has others, or is missing
        _top().rmdir()
        _top().parent.rmdir()


def _top() -> Path:
    return _TOP_WITHOUT_ROOT if namespaces_id() else _TOP
