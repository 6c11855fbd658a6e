"""A store in a directory, and the proof that nothing stays mounted below it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from tests.support.directories import short_directory
from tests.support.leftovers import unmount_under


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory on a real disk, without mounts at the end."""
    if os.geteuid() != 0:
        pytest.skip("layers have owners and devices: only root can unpack them")
    with short_directory("oi-", Path("/var/tmp")) as path:
        yield path
        left = str(path) in Path("/proc/self/mountinfo").read_text()
        unmount_under(path)
        assert not left


@pytest.fixture
def store(scratch: Path) -> ImageStore:
    """An empty store."""
    return ImageStore(scratch / "images", RealClock(), scratch / "certs.d")


@pytest.fixture
def container(scratch: Path) -> Path:
    """The directory of a container."""
    path = scratch / "container"
    path.mkdir()
    return path
