"""A store in a directory, and the proof that nothing stays mounted below it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.clock import RealClock
from edged.oci.images import ImageStore
from tests.support.leftovers import unmount_under


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory on a real disk, without mounts at the end."""
    if os.geteuid() != 0:
        pytest.skip("layers have owners and devices: only root can unpack them")
    with tempfile.TemporaryDirectory(prefix="oi-", dir="/var/tmp") as name:
        path = Path(name)
        yield path
        left = name in Path("/proc/self/mountinfo").read_text()
        unmount_under(path)
        assert not left


@pytest.fixture
def store(scratch: Path) -> ImageStore:
    """An empty store."""
    return ImageStore(scratch / "images", RealClock(), scratch / "certs.d")
