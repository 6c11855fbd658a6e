"""Gives a wheel or an sdist the version of its commit, and the extra `lab` the same; everything else is in setup.cfg.

An sdist has the version and the commit in its files, so that a wheel can be built from it without git.
"""

from __future__ import annotations

import sys
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).resolve().parent))
from modules.processes.common.source_version import VERSION_FILE, built_version, checked_out, stamped
from modules.processes.common.version import COMMIT, VERSION

SOURCE = None if COMMIT else checked_out()
BUILT = built_version(VERSION, SOURCE)


def stamp(root: str) -> None:
    """Write version and commit into a copy of the sources. It may be a hard link to them, which is replaced."""
    if SOURCE is not None:
        path = Path(root, VERSION_FILE)
        text = stamped(path.read_text(), BUILT, SOURCE)
        path.unlink()
        path.write_text(text)


class BuildPy(build_py):
    """Builds the files of a wheel; an editable installation does without."""

    def run(self) -> None:
        """Copy the packages."""
        super().run()
        if not self.editable_mode:
            stamp(self.build_lib)


class Sdist(sdist):
    """Builds an sdist."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the sources."""
        super().make_release_tree(base_dir, files)
        stamp(base_dir)


if SOURCE is not None and not SOURCE.commits:
    sys.stderr.write(f"{BUILT}: a shallow clone cannot number its wheels: git fetch --unshallow\n")
config = ConfigParser(interpolation=None)
config.read(Path(__file__).resolve().with_name("setup.cfg"))
setup(
    version=BUILT,
    extras_require={**config["options.extras_require"], "lab": f"edgecore-lab=={BUILT}"},
    cmdclass={"build_py": BuildPy, "sdist": Sdist},
)
