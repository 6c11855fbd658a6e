"""The wheels, built as `make release` does and installed in an environment of their own: all that the checkout has."""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.source_version import built_version, checked_out
from modules.processes.common.version import VERSION
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.modules.edge.dmi.node import DmiNode, device, model
from tests.packaging.release import CONSTRAINTS, PARTS, build
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

PACKAGES: Final = ("beehive", "protos", "metamanager", "edgehub", "edged", "modules", "edgecore_mapper")
LAB_CONFIG: Final = "deploy/lab/setup.cfg"
PART_CONFIGS: Final = tuple(f"deploy/{part.name}/setup.cfg" for part in PARTS)
BUS: Final = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "beehive.md").read_text(), re.S)
RECORDED: Final = REPOSITORY / "tests" / "replay" / "fixtures" / "init.trace"


def output_of(*command: str | Path, cwd: Path) -> str:
    """The standard output of a command that must succeed; the error says what it wrote."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


OPTIONS: Final = ("--quiet", "--no-deps", "--no-index", "--no-compile")  # programs compile the little that they import


def pip(programs: Path, *arguments: str | Path) -> str:
    """Run pip for an environment without pip."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(programs / "python"))
    return output_of(*command, *arguments, cwd=programs)


def tracked(*paths: str) -> list[str]:
    """Return the tracked files below these paths that are on the disk."""
    names = output_of("git", "ls-files", "-z", "--", *paths, cwd=REPOSITORY).split("\0")
    return [name for name in names if name and (REPOSITORY / name).is_file()]


def environment(where: Path, *wheels: Path) -> Path:
    """Make an environment that has the wheels, and the dependencies of the environment that runs the tests; return the
    directory of its programs.

    A `.pth` file lends those: the editable installation beside them is not seen through it.
    """
    venv.create(where, with_pip=False, symlinks=True)
    site = where / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip(where / "bin", "install", *OPTIONS, *wheels)
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return where / "bin"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of one commit, which has the tracked files as they are on the disk."""
    copy = tmp_path_factory.mktemp("source")
    others = (
        "setup.py",
        "setup.cfg",
        "pyproject.toml",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        *PART_CONFIGS,
    )
    for name in tracked(*PACKAGES, *others, *CONSTRAINTS):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((REPOSITORY / name).read_bytes())
    for arguments in (["init", "--quiet"], ["add", "--force", "."], ["commit", "--quiet", "--message", "all"]):
        output_of("git", "-c", "user.name=t", "-c", "user.email=t@example", *arguments, cwd=copy)
    return copy


@pytest.fixture(scope="module")
def release(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that `make release` makes from it."""
    where = tmp_path_factory.mktemp("dist")
    (where / "edgecore-0.2.0-py3-none-any.whl").touch()
    for part in PARTS:
        (where / f"edgecore_{part.name}-0.2.0-py3-none-any.whl").touch()
    build(clone, where)
    return where


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    """The wheel of the product."""
    (one,) = release.glob("edgecore-*.whl")
    return one


@pytest.fixture(scope="module")
def lab(release: Path) -> Path:
    """The wheel of simulation and replay."""
    (one,) = release.glob("edgecore_lab-*.whl")
    return one


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel."""
    return environment(tmp_path_factory.mktemp("environment"), wheel)


def names_in(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def required(wheel: Path) -> set[str]:
    """Lines `Requires-Dist` of a wheel's metadata."""
    (name,) = (one for one in names_in(wheel) if one.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(name).decode().splitlines()
    return {line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")}


def test_every_tracked_file_of_the_packages_is_in_a_wheel(wheel: Path, lab: Path) -> None:
    """Also those that are no Python: pages, styles, scripts, .proto files, types; those of the lab in its own only."""
    product, extra = names_in(wheel), names_in(lab)
    lab_files = set(tracked("modules/lab"))
    assert [name for name in tracked(*PACKAGES) if name not in product] == sorted(lab_files)
    assert lab_files == {name for name in extra if ".dist-info/" not in name}
    for there in (product, extra):
        assert any(name.endswith("LICENSE") for name in there)
        assert not any(name.startswith(("tests/", "docs/", "examples/")) for name in there)


def test_the_lab_is_an_extra(programs: Path, wheel: Path, lab: Path, tmp_path: Path) -> None:
    """Without it a command of the lab names the command of pip; with it the command runs."""
    version = wheel.name.split("-")[1]
    assert lab.name == f"edgecore_lab-{version}-py3-none-any.whl"
    assert required(lab) == {f"edgecore=={version}"}
    assert f'edgecore-lab=={version}; extra == "lab"' in required(wheel)
    simulate = (programs / "edgecore", "simulate", "--hours", "0.01", "--cores", "1")
    for command in (simulate, (programs / "edgecore", "replay", RECORDED)):
        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (refused.returncode, refused.stdout) == (ExitCode.NOT_INSTALLED, "")
        assert f"needs the extra lab: pip install --find-links DIRECTORY 'edgecore[lab]=={version}'" in refused.stderr
        assert refused.stderr.count("\n") == 1
    pip(programs, "install", *OPTIONS, lab)
    assert "1/1 seeds, 0 failed" in output_of(*simulate, cwd=tmp_path)
    pip(programs, "uninstall", "--yes", "edgecore-lab")


MAPPER: Final = """
import modules.own, protos.own
from edgecore_mapper import DeviceDriver, serve


class Thermometer(DeviceDriver):
    def read(self, prop):
        return 21 if prop.name == "temperature" else False


serve("thermometers", "demo", {"tm": Thermometer})
"""
"""A mapper of a project with packages of its own, which have names of edgecore's."""


def test_the_bus_and_mappers_do_without_edgecore(release: Path, tmp_path: Path) -> None:
    """A test of a module in virtual time, and a mapper whose device's value arrives in a node's database."""
    version = next(release.glob("edgecore-*.whl")).name.split("-")[1]
    wheels = [release / f"edgecore_{name}-{version}-py3-none-any.whl" for name in ("beehive", "mapper")]
    assert [{name.split("/")[0].split("-")[0] for name in names_in(one)} for one in wheels] == [
        {"beehive", "edgecore_beehive"},
        {"edgecore_mapper"},
    ]
    assert f"edgecore-beehive=={version}" in required(wheels[1])
    python = environment(tmp_path / "environment", *wheels) / "python"
    project = tmp_path / "project"
    for package in ("modules", "protos"):
        (project / package).mkdir(parents=True)
        (project / package / "own.py").touch()
    (project / "mapper.py").write_text(MAPPER)
    output_of(python, "-c", "\n".join(BUS[:3]), cwd=project)
    with stopping(DmiNode(tmp_path).start()) as node:
        node.put(model())
        node.put(device())
        with subprocess.Popen([python, "mapper.py", "--edgecore", node.socket], cwd=project) as mapper:
            try:
                wait_until(
                    lambda: node.twins("thermo").get("temperature") == "21", "the value is in the node's database"
                )
            finally:
                mapper.terminate()
        assert mapper.returncode == 0


def test_strict_types_of_a_program_with_the_wheels(programs: Path, tmp_path: Path) -> None:
    """mypy finds the exports and the types of all that the pages of the bus and of mappers import."""
    (tmp_path / "bus.py").write_text("\n".join(BUS))
    (tmp_path / "mapper.py").write_text((REPOSITORY / "examples" / "thermometer_mapper.py").read_text())
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", programs / "python")
    assert output_of(*mypy, "bus.py", "mapper.py", cwd=tmp_path).startswith("Success")


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


def test_the_version_names_the_commit(programs: Path, clone: Path, wheel: Path, tmp_path: Path) -> None:
    """As the name of the file does."""
    source = checked_out(clone)
    version = built_version(VERSION, source)
    assert wheel.name == f"edgecore-{version}-py3-none-any.whl"
    told = json.loads(output_of(programs / "edgecore", "version", "-o", "json", cwd=tmp_path))
    assert source is not None
    assert (told["version"], told["build"]) == (
        version,
        {"from": "distribution", "commit": source.hash, "commitTime": source.rfc3339, "modified": False},
    )
    assert f"build: commit {source.hash} of " in output_of(programs / "cloudcore", "version", cwd=tmp_path)


def test_the_files_of_a_release_and_their_sums(release: Path) -> None:
    """`sha256sum --check SHA256SUMS` says so, too."""
    lines = (release / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in release.iterdir()
        if file.name != "SHA256SUMS"
    }
    parts = [f"edgecore_{part.name}-*.whl" for part in PARTS]
    kinds = ("edgecore-*.whl", *parts, "edgecore-*.tar.gz", *CONSTRAINTS)
    assert [sum(fnmatch(name, kind) for name in sums) for kind in kinds] == [1] * len(kinds)


@pytest.mark.slow
def test_the_same_bytes_elsewhere_and_later(
    release: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another directory, in another second, time zone, language and umask, and from the sdist without git."""
    time.sleep(2)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    output_of("git", "clone", "--quiet", clone, tmp_path / "another place", cwd=tmp_path)
    umask = os.umask(0o077)
    try:
        again = build(tmp_path / "another place", tmp_path / "dist")
    finally:
        os.umask(umask)
    assert {file.name: file.read_bytes() for file in again} == {
        file.name: file.read_bytes() for file in release.iterdir()
    }

    (archive,) = release.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    output_of(*command, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ".", cwd=unpacked)
    assert not (
        set(tracked("modules/lab", LAB_CONFIG)) - {str(one.relative_to(unpacked)) for one in unpacked.rglob("*")}
    )
    (ours,), (first,) = tmp_path.glob("*.whl"), release.glob("edgecore-*.whl")
    assert ours.name == first.name
    with zipfile.ZipFile(ours) as of_sdist, zipfile.ZipFile(first) as of_clone:
        assert {name: of_sdist.read(name) for name in of_sdist.namelist()} == {
            name: of_clone.read(name) for name in of_clone.namelist()
        }
