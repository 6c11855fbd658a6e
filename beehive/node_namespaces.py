"""The user and mount namespace of a node that an ordinary user runs (`modules.runtimes.oci.rootless`).

The user is root in it, and nowhere else: what takes root's rights over the machine, or root's place in its file system,
asks here.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

PLACE: Final = Path("/run/lock")
"""A directory that every machine has and a node does not need; in the namespaces it is a tmpfs of the node's own."""
DIRECTORY: Final = PLACE / "edgecore"
"""Files of the node that end with its namespaces."""

_ID: Final = "id"
_USERS: Final = Path("/proc/self/uid_map")
_EVERYBODY: Final = "4294967295"


def namespaces_id(directory: Path = DIRECTORY, users: Path = _USERS) -> str:
    """Return the identity of the node's namespaces that this process is in; empty in the machine's. It is no secret.

    The machine's own directory may have such a file of anybody's, so it counts only where this process has not all
    users.
    """
    if _EVERYBODY in users.read_text().split():
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


def is_machine_root() -> bool:
    """Return whether this process is root on the machine, or in the container that it runs in."""
    return os.geteuid() == 0 and not namespaces_id()
