"""What these tests need of the machine, and what they leave on it: nothing."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.directories import short_directory

PLUGINS: Final = Path("/usr/lib/cni")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")
needs_plugins = pytest.mark.skipif(
    os.geteuid() != 0 or not (PLUGINS / "bridge").exists() or shutil.which("iptables") is None,
    reason="needs root, iptables, and CNI plug-ins in /usr/lib/cni (apt-get install containernetworking-plugins)",
)


@contextmanager
def network_directory() -> Iterator[Path]:
    """A directory of its own, without mounts at the end."""
    with short_directory("net-") as path:
        yield path
        assert str(path) not in Path("/proc/self/mountinfo").read_text()


def script(directory: Path, name: str, text: str) -> Path:
    """A program of the shell, as a CNI plug-in."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
