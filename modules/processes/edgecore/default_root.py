"""The directory of a node that has neither a configuration file nor `--root`."""

from __future__ import annotations

import os
from pathlib import Path

from modules.processes.edgecore.config import ConfigError, Problem


def default_root() -> Path:
    """Return the directory of a node without file and `--root`: `$XDG_STATE_HOME/edgecore`, by default
    `~/.local/state/edgecore`.

    Raises:
        ConfigError: the user has no home directory.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "edgecore"
    try:
        return Path("~/.local/state/edgecore").expanduser()
    except RuntimeError:
        hint = "give --root DIR or --config FILE"
        raise ConfigError("--root", (Problem(path="", text="this user has no home directory", hint=hint),)) from None
