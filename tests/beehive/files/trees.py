"""Trees as a container can make them, which the usual functions cannot."""

import os
from contextlib import suppress
from pathlib import Path


def open_below(top: Path) -> int:
    """Return how many descriptors this process has open in a tree. Others come and go with other tests' threads."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += entry.readlink().is_relative_to(top)
    return count


def make_deep(top: Path, depth: int, *, name: str = "d", files: bool = False) -> Path:
    """A directory, and so many below it, each in the other; with a file beside each if `files`. Returns `top`."""
    top.mkdir(parents=True)
    at = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        if files:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    return top
