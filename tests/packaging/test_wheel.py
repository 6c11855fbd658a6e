"""The wheel, built from the tracked files and installed in an environment of its own, has all that the checkout has."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.processes import PATIENCE, REPOSITORY

PACKAGES: Final = ("beehive", "protos", "metamanager", "edgehub", "edged", "modules")
RECORDED: Final = REPOSITORY / "tests" / "replay" / "fixtures" / "init.trace"


def output_of(*command: str | Path, cwd: Path) -> str:
    """The standard output of a command that must succeed; the error says what it wrote."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def tracked(*paths: str) -> list[str]:
    """Return the tracked files below these paths that are on the disk."""
    names = output_of("git", "ls-files", "-z", "--", *paths, cwd=REPOSITORY).split("\0")
    return [name for name in names if name and (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Build the wheel in a copy of the tracked files, so that the checkout does not change."""
    copy = tmp_path_factory.mktemp("source")
    for name in tracked(*PACKAGES, "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((REPOSITORY / name).read_bytes())
    built = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    output_of(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, ".", cwd=copy)
    (one,) = built.glob("*.whl")
    yield one


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, and the dependencies of the environment that runs the tests.

    A `.pth` file lends those: the editable installation beside them is not seen through it.
    """
    where = tmp_path_factory.mktemp("environment")
    venv.create(where, with_pip=False, symlinks=True)
    site = where / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(where / "bin" / "python"))
    output_of(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=where)
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return where / "bin"


def test_every_tracked_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    """Also those that are no Python: pages, styles, scripts, .proto files, types."""
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
    assert [name for name in tracked(*PACKAGES) if name not in there] == []
    assert any(name.endswith("LICENSE") for name in there)
    assert not any(name.startswith(("tests/", "docs/", "examples/")) for name in there)


@pytest.mark.parametrize("program", ["edgecore", "cloudcore"])
def test_the_programs_run_from_the_wheel(programs: Path, program: str, tmp_path: Path) -> None:
    """Not from the checkout: the current directory is another."""
    assert "usage:" in output_of(programs / program, "--help", cwd=tmp_path)
    where = output_of(programs / "python", "-c", "import modules; print(modules.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(programs.parent)


def test_a_trace_becomes_a_page(programs: Path, tmp_path: Path) -> None:
    """The page's parts are data files, which the wheel lacked."""
    output_of(programs / "edgecore", "trace", "view", RECORDED, "-o", tmp_path / "page.html", cwd=tmp_path)
    assert "<script>" in (tmp_path / "page.html").read_text()
