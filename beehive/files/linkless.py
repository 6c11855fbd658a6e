"""Opens a file in directories that a container may have got hold of: such as a log, by a hostPath of its directory."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

OWN_PARTS: Final = 3
"""Last parts of a log's path, made for its pod: `<pod>/<container>/<attempt>.log`. The directories above are the
machine's.
"""

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def open_without_links(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file, and follow no link in the place of the file, or of the directories of its container and pod;
    return the descriptor. A pipe in its place blocks nobody, and a device is not used.

    Args:
        path: of the file.
        flags: of `open`; with `os.O_CREAT` it is made when missing.
        mode: of a new file, before the umask.

    Raises:
        OSError: it cannot be opened, or is not a regular file (EINVAL).
    """
    parts = path.parts
    *directories, name = parts[-OWN_PARTS:]
    above = os.path.join("", *parts[: -len(directories) - 1])  # noqa: PTH118 - strings: each container has a log
    within = os.open(above or ".", _DIRECTORY)
    try:
        for part in directories:
            following = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
            os.close(within)
            within = following
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=within)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(within)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor
