"""Disk usage of containers' writable layers for their stats; all other usage comes from control groups, as for any
container.
"""

import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.walking import Walk
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.engine.registry import Registry
from modules.runtimes.oci.images.model import StorageUsage

_SECTOR: Final = 512


class WritableLayers:
    """The writable layers of containers, if Docker's storage driver reports their directories (overlay2)."""

    def __init__(self, registry: Registry[DockerContainer]) -> None:
        self._registry = registry

    def usage(self, directory: Path) -> StorageUsage:
        """Walk a container's writable layer and return its usage; empty if its directory is unknown."""
        container = self._registry.find_container(directory.name)
        if container is None or not container.writable_layer:
            return StorageUsage()
        size, inodes = 0, 0
        with suppress(OSError):
            for found in Walk(Path(container.writable_layer)):
                with suppress(OSError):
                    status = found.entry.stat(follow_symlinks=False)
                    size += status.st_blocks * _SECTOR // (1 if stat.S_ISDIR(status.st_mode) else status.st_nlink)
                    inodes += 1
        return StorageUsage(size, inodes)
