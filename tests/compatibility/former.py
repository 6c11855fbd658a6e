"""The code of former releases, from the history of this clone."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import REPOSITORY

RELEASES: Final = {"0.4.0": "475548f5", "0.5.0": "d57753a9", "0.6.0": "77c8806d"}
"""The commits of the releases of the last three minor versions."""
_PRODUCT: Final = ("beehive", "edged", "edgehub", "metamanager", "modules", "protos", "setup.cfg")


def unpack(release: str, directory: Path) -> Path:
    """Return a tree below a directory with the code of a release, which runs with today's dependencies.

    Skip the test where the clone has no history.
    """
    archive = directory / "release.tar"
    command = ["git", "archive", "-o", str(archive), RELEASES[release], *_PRODUCT]
    if subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False).returncode:
        pytest.skip("the history of this clone does not have the releases: git fetch --unshallow")
    tree = directory / "tree"
    tree.mkdir()
    subprocess.run(["tar", "-x", "-f", str(archive), "-C", str(tree)], check=True)
    return tree
