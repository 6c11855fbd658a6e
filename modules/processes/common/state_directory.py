"""The directory where a program keeps its state unless another one is given."""

import os
from pathlib import Path


def state_directory(program: str) -> Path:
    """Return `$XDG_STATE_HOME/PROGRAM` if the variable is set, `/var/lib/PROGRAM` for root, and
    `~/.local/state/PROGRAM` for everybody else.

    Root's does not depend on `$HOME`, which `sudo` may leave at another user's.

    Raises:
        RuntimeError: the user has no home directory.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / program
    return Path("/var/lib" if os.geteuid() == 0 else Path("~/.local/state").expanduser()) / program
