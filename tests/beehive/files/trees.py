"""Trees as a container can make them, which the usual functions cannot."""

import itertools
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

DEEP: Final = 600
"""Levels of a tree, for `no_way_down`. The time of a walk grows with their square."""


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


@contextmanager
def few_descriptors(most: int) -> Iterator[None]:
    """Let this process open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir("/proc/self/fd") if Path("/proc/self/fd", name).is_symlink()}  # noqa: PTH208
    free = (number for number in itertools.count() if number not in used)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, most, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_way_down() -> Iterator[None]:
    """Let no function go down `DEEP` levels by calling itself, or with a descriptor for each."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    try:
        with few_descriptors(500):
            yield
    finally:
        sys.setrecursionlimit(usual)
