"""Where the owner's socket is; without the server behind it, for commands that only connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from modules.processes.edgecore.config import EdgeCoreConfig

SOCKET: Final = "edged.sock"
"""Name of the socket in the root directory."""


def socket_path(config: EdgeCoreConfig) -> Path:
    """Return the path of the owner's socket."""
    return config.modules.edged.root_directory / SOCKET
