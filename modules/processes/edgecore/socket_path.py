"""The path of the owner's socket, for commands that only connect. This module does not import the server behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from modules.processes.edgecore.config import EdgeCoreConfig

SOCKET: Final = "edged.sock"
"""Name of the socket in the root directory."""

DEVICES_PATH: Final = "/edgecore/devices"
"""Path of devices on the socket."""


SERVICES_PATH: Final = "/edgecore/services"
"""Path of Services on the socket."""

RESOLVE_PATH: Final = "/edgecore/resolve"
"""Path of names on the socket."""

JOB_PATH: Final = "/edgecore/job"
"""Path of the job under way on the socket."""

RELEASE_PATH: Final = "/edgecore/release"
"""Path of releases of pods that wait on the socket."""


def socket_path(config: EdgeCoreConfig) -> Path:
    """Return the path of the owner's socket."""
    return config.modules.edged.root_directory / SOCKET
