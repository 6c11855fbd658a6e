"""The user and mount namespace of a node that an ordinary user runs (`modules.runtimes.oci.rootless`).

The user is root in it, and nowhere else: what takes root's rights over the machine, or root's place in its file system,
asks here.
"""

import os
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

PLACE: Final = Path("/run/lock")
"""A directory that every machine has and a node does not need; in the namespaces it is a tmpfs of the node's own."""
DIRECTORY: Final = PLACE / "edgecore"
"""Files of the node that end with its namespaces."""

GROUPS: Final = Path("/sys/fs/cgroup")
"""Control groups: the machine's, or in the namespaces those that are delegated to the node, or none."""

POD_ROOT: Final = 1
"""The user and the group that are root in the pods of the node: its first sub-ids, who own nothing on the machine."""
POD_IDS: Final = 65_536
"""Users, and groups, of a pod, from its root on."""

_ID: Final = "id"
_USERS: Final = Path("/proc/self/uid_map")
_EVERYBODY: Final = b"4294967295"


@cache
def namespaces_id(directory: Path = DIRECTORY, users: Path = _USERS) -> str:
    """Return the identity of the node's namespaces that this process is in; empty in the machine's. It is no secret.

    The machine's own directory may have such a file of anybody's, so it counts only where this process has not all
    users. Kept: it is asked several times for each pod. Whoever enters namespaces calls `cache_clear`.
    """
    if _EVERYBODY in users.read_bytes().split():
        return ""
    try:
        return (directory / _ID).read_text("ascii").strip()
    except OSError:
        return ""


def write_namespaces_id(secret: str, directory: Path = DIRECTORY) -> None:
    """Give the namespaces of this process their identity. Processes outside find them by a file with the name of the
    secret, which no pod knows: else it could have such a file, and edgecore would enter the pod. The file names the
    mount namespace. Raises OSError.
    """
    (directory / secret).touch(mode=0o600)
    (directory / secret).write_text(str(Path("/proc/self/ns/mnt").readlink()))
    (directory / _ID).write_text(sha256(secret.encode()).hexdigest()[:32])
    namespaces_id.cache_clear()


def delegated_controllers() -> frozenset[str]:
    """Return the controllers (cgroup v2) with which a node without root may limit its pods; none outside of its
    namespaces.
    """
    if not namespaces_id():
        return frozenset()
    try:
        return frozenset((GROUPS / "cgroup.controllers").read_text().split())
    except OSError:
        return frozenset()


def is_machine_root() -> bool:
    """Return whether this process is root on the machine, or in the container that it runs in."""
    return os.geteuid() == 0 and not namespaces_id()


def pod_id(number: int) -> int:
    """Return the number that this process, and root the same one, has for the user or group `number` of pods."""
    return number + POD_ROOT if namespaces_id() else number


def give_to_pods(path: str | Path | int, within: int | None = None) -> None:
    """Give to the root of pods what this process, or its group, owns, unless it is root for pods, too; a link itself.

    Args:
        path: name, or descriptor, which may be of O_PATH.
        within: descriptor of the directory of a relative path.

    Raises:
        OSError: the file system refuses it.
    """
    if not namespaces_id():
        return
    found = os.fstat(path) if isinstance(path, int) else os.stat(path, dir_fd=within, follow_symlinks=False)
    user, group = (POD_ROOT if owner == 0 else -1 for owner in (found.st_uid, found.st_gid))
    if isinstance(path, int):
        os.chown(f"/proc/self/fd/{path}", user, group)
    else:
        os.chown(path, user, group, dir_fd=within, follow_symlinks=False)
