"""Operations that make content durable, apart so that a test can fail at each of them."""

import os
from pathlib import Path

from beehive.files.durable import sync_directory
from modules.runtimes.oci.images.worker.kernel import sync_file_system

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Disk:
    """The machine's disk. Nothing is durable before the syncs. Every method raises OSError."""

    def make_directory(self, path: Path) -> None:
        """Make a directory that only this user enters."""
        path.mkdir(mode=0o700)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file."""
        with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
            file.write(content)

    def sync_everything(self, directory: Path) -> None:
        """Put all of the directory's file system on the disk."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def publish(self, source: Path, target: Path) -> None:
        """Rename a file or a directory."""
        source.rename(target)

    def sync_directory(self, directory: Path) -> None:
        """Put the names in a directory on the disk."""
        sync_directory(directory)
