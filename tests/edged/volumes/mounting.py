"""Real mounts in tests: skipped without the right to mount, and none may be left."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from edged.volumes import KernelMounts, VolumeError, points_below


def may_mount() -> bool:
    """Return whether this process may mount."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective, 16) >> 21 & 1)


needs_mounts = pytest.mark.skipif(not may_mount(), reason="mounting needs root with CAP_SYS_ADMIN")


@contextmanager
def nothing_mounted_at_the_end(directory: Path) -> Iterator[KernelMounts]:
    """The kernel's mounts. Leftovers of a failed test are unmounted; a passing test leaves nothing."""
    mounts = KernelMounts()
    passed = False
    try:
        yield mounts
        passed = True
    finally:
        left = points_below(mounts, directory)
        with suppress(VolumeError):
            mounts.unmount(*left)
        assert not (passed and left), f"left mounted: {left}"
