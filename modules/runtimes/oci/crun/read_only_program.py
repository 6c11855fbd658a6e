"""A read-only mount of the OCI runtime's program, which spares crun a copy of itself at every command.

A process of a container could open /proc/PID/exe of a crun that enters the container, and overwrite the machine's crun
(CVE-2019-5736). So crun begins every command by mounting its own file read-only, and executes itself again from there,
unless it finds itself on a read-only mount already (crun 1.8.1, `src/libcrun/cloned_binary.c`). Here one mount serves
all commands. No container has it in its mount namespace, so that none can make it writable.
"""

import logging
import os
import threading
from pathlib import Path
from typing import Final

from beehive.on_failure import on_failure
from modules.runtimes.oci.leftovers import unmount_all
from modules.runtimes.shim import kernel

_log = logging.getLogger(__name__)

_PROGRAMS: Final = "programs"


class ReadOnlyProgram:
    """The mount of one program. It outlives edgecore; the next one takes it over.

    Args:
        program: path of the machine's program.
        root: the state directory.
    """

    def __init__(self, program: Path, root: Path) -> None:
        self._program = program
        self._directory = root / _PROGRAMS
        self._lock = threading.Lock()
        self._refused = False

    def path(self) -> Path:
        """Return the path to execute; the machine's own where the mount is not possible.

        The program may have been replaced by an update of its package since the last call: then the new one is mounted,
        and the old one stays for commands that are just beginning.
        """
        with self._lock:
            if self._refused:
                return self._program
            try:
                own = self._program.stat()
                target = self._directory / f"{self._program.name}-{own.st_ino}"
                if not _is_mounted(own, target):
                    self._mount(target)
            except OSError as error:
                self._refused = True
                _log.warning("%s cannot be mounted read-only, and mounts itself each time: %s", self._program, error)
                return self._program
            return target

    def remove(self, *, but_current: bool = False) -> None:
        """Undo the mounts; with `but_current` only mounts of programs that were replaced. Raises OSError."""
        with self._lock:
            for target in self._directory.glob("*"):
                if not (but_current and _is_mounted(self._program.stat(), target)):
                    unmount_all(target)
                    target.unlink(missing_ok=True)

    def _mount(self, target: Path) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if target.exists():
            unmount_all(target)  # a mount that a killed edgecore has begun
        target.touch(mode=0o600)
        with on_failure(target.unlink):  # `remove` unmounts, which this machine would refuse as well
            kernel.mount(str(self._program.resolve()), str(target), "none", kernel.MS_BIND)
        flags = kernel.mount_flags(str(target)) | kernel.MS_RDONLY
        kernel.mount("none", str(target), "none", kernel.MS_REMOUNT | kernel.MS_BIND | flags)


def _is_mounted(program: os.stat_result, target: Path) -> bool:
    """Return whether a program is mounted at a file, and read-only. Raises OSError."""
    try:
        mounted, flags = target.stat(), os.statvfs(target).f_flag
    except FileNotFoundError:
        return False
    return (program.st_dev, program.st_ino) == (mounted.st_dev, mounted.st_ino) and bool(flags & os.ST_RDONLY)
