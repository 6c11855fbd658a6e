"""Removes leftovers of a killed edgecore that have no record: mounts of containers, and plug-ins that still run."""

import errno
import logging
import os
from pathlib import Path

from beehive.patterns import pattern
from modules.runtimes.oci.orphans import await_orphans, processes_with
from modules.runtimes.shim import kernel

_log = logging.getLogger(__name__)

_PLUGIN_VARIABLE = "CNI_NETNS"
"""A plug-in that attaches a sandbox has its network namespace in it."""
_ESCAPED = pattern(rb"\\([0-3][0-7]{2})")


def unmount_unknown(containers: Path, known: set[str]) -> None:
    """Unmount the file systems below directories of containers that no longer exist.

    Args:
        containers: the directory of all containers' directories.
        known: ids of the containers that exist.
    """
    top = f"{containers.resolve()}/"
    for path in reversed(mount_points(Path("/proc/self/mountinfo").read_bytes())):
        if path.startswith(top) and path[len(top) :].partition("/")[0] not in known:
            try:
                kernel.unmount(path, kernel.MNT_DETACH)
            except OSError as error:
                _log.warning("what a container has left stays mounted: %s", error)


def unmount_all(target: Path) -> None:
    """Undo all mounts at a path; there may be none, or no such path. Raises OSError."""
    try:
        while True:
            kernel.unmount(str(target), kernel.MNT_DETACH)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise


def settle_network_processes(namespaces: Path) -> None:
    """Wait for CNI plug-ins that are attaching sandboxes.

    Args:
        namespaces: the directory of all sandboxes' namespaces.
    """
    await_orphans(list(processes_with(_PLUGIN_VARIABLE, f"{namespaces}/")))


def mount_points(mountinfo: bytes) -> list[str]:
    """Return the mount points in a text like /proc/self/mountinfo, in the order of mounting. Their names may have any
    bytes; the kernel writes blanks, line ends and backslashes as octal numbers.
    """
    fields = (line.split(b" ", 5) for line in mountinfo.split(b"\n"))
    return [
        os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), each[4])) for each in fields if len(each) > 5
    ]
