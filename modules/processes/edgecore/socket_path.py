"""Where the owner's socket is, and what of it commands must know; without the server behind it, for commands that only
connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from modules.processes.edgecore.config import EdgeCoreConfig

SOCKET: Final = "edged.sock"
"""Name of the socket in the root directory."""

DEVICES_PATH: Final = "/edgecore/devices"
"""Path of devices on the socket."""


def socket_path(config: EdgeCoreConfig) -> Path:
    """Return the path of the owner's socket."""
    return config.modules.edged.root_directory / SOCKET
