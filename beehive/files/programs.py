"""Programs that are started by their name, and why one could not be."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

_WHEREABOUTS = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)


def is_not_found(error: OSError, command: str, searched: Iterable[str]) -> bool:
    """Return whether a command could not be started because no directory of PATH has it.

    execvp(3) reports EACCES and not ENOENT if one of the directories may not be searched, wherever the program is; and
    ENOENT too if the program is there and its interpreter is not.

    Args:
        error: of the start.
        command: name of the program; one with a slash is not searched for.
        searched: the directories, as `os.get_exec_path` returns them.
    """
    if "/" in command or error.errno not in _WHEREABOUTS:
        return False
    return not any(os.path.isfile(os.path.join(directory, command)) for directory in searched)  # noqa: PTH113, PTH118
