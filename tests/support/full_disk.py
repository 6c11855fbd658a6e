"""Small file systems, and files that fill them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


def small_file_system(size: str) -> Iterator[Path]:
    """A file system of this size (`1m`), for a fixture; skips where none may be mounted."""
    if os.geteuid():
        pytest.skip("only root may mount")
    with TemporaryDirectory(prefix="full-") as directory:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "full", directory], check=False)
        if made.returncode:
            pytest.skip("this machine allows no mount")
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", directory], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all that is left."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return ballast
