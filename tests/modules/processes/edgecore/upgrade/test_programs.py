"""The launcher and the copy of the updater: whole at any moment, for whichever version has written them."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from modules.processes.edgecore.upgrade.programs import PACKAGE, write_programs
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from tests.modules.processes.edgecore.upgrade.releases import journal_of
from tests.modules.processes.edgecore.upgrade.test_updater_process import write_program
from tests.support.failing import Attempt, Failing, fail_at_each_call
from tests.support.power_cuts import Cut, Promise, after_each_cut

_FORMER: Final = "def launch(root, words): print('former', words)\nif __name__ == '__main__': print('updater')\n"
"""What a version before 0.7 writes: all of the updater is in one file."""


def package_of(directory: Path, text: str) -> Path:
    """Make a small package of an updater."""
    directory.mkdir()
    for name in ("__init__", "__main__", "starting"):
        (directory / f"{name}.py").write_text(f"# {name}: {text}\n" + ("x = 1\n" * 100))
    return directory


def updaters(installation: Installation) -> list[Path]:
    """Return the packages that are there."""
    return sorted(installation.state.glob("updater_*"))


@pytest.mark.parametrize("former", [None, _FORMER, "package"])
def test_a_cut_leaves_a_launcher_and_a_whole_updater(tmp_path: Path, former: str | None) -> None:
    """The launcher is what starts the node."""
    packages = [package_of(tmp_path / name, name) for name in ("one", "two")]
    root = tmp_path / "i"
    installation = Installation(root)
    installation.state.mkdir(parents=True)
    if former == "package":
        write_programs(installation, packages[0])
    elif former:
        write_programs(installation, packages[0])
        (installation.state / "updater.py").write_text(former)
    had_launcher = installation.launcher.read_text() if former else ""

    def life(promise: Promise) -> None:
        write_programs(installation, packages[1])
        promise("written")

    def check(cut: Cut) -> None:
        file = installation.state / "updater.py"
        assert file.exists() or not (former or installation.launcher.exists())
        assert installation.launcher.exists() or not (former or cut.promised)
        assert not former or installation.launcher.read_text() == had_launcher, "any version's launcher imports it"
        if not file.exists() or file.read_text() == _FORMER:
            assert not cut.promised
            return
        (used,) = [each for each in updaters(installation) if each.name in file.read_text()]
        whole = [{each.name: each.read_text() for each in package.iterdir()} for package in packages]
        assert {each.name: each.read_text() for each in used.iterdir()} in (whole[1:] if cut.promised else whole)
        write_programs(installation, packages[1])

    assert after_each_cut(root, life, check) > 10


def test_the_updater_before_stays_for_a_launcher_that_reads_it(tmp_path: Path) -> None:
    """And the one before that goes."""
    installation = Installation(tmp_path / "i")
    installation.state.mkdir(parents=True)
    found = list[list[Path]]()
    for name in ("one", "two", "three", "three"):
        write_programs(installation, package_of(tmp_path / f"{name}{len(found)}", name))
        found.append(updaters(installation))
    assert [len(each) for each in found] == [1, 2, 2, 1]
    assert found[0][0] not in found[2]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "i")
    (tmp_path / "i" / "bin").mkdir(parents=True)
    installation.state.mkdir()
    package = package_of(tmp_path / "one", "one")

    def make(failing: Failing) -> Attempt:
        def write() -> None:
            with failing.steps_of_files():
                write_programs(installation, package)

        return Attempt(write, left=lambda: [*installation.state.glob(".updater_*")])

    assert fail_at_each_call(make) > 3


def write_journal(installation: Installation, phase: Phase) -> None:
    """Write an upgrade from 1.0.0 to 2.0.0, of a node whose command prints its version."""
    for version in ("1.0.0", "2.0.0"):
        write_program(
            installation.versions / version / "bin" / "edgecore", f"import sys; print('{version}', *sys.argv[1:])"
        )
    installation.activate("2.0.0")
    handle = NodeHandle(str(installation.root / "lock"), str(installation.root / "s"), [], [])
    before = NodeObservation("1.0.0", connected=False, unready=[], containers={})
    installation.write(UpgradeJournal("1.0.0", "2.0.0", handle, before, [], "", 3, 0), phase)


def test_the_copy_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    """It leaves no bytecode either, which a power cut could tear."""
    installation = Installation(tmp_path / "i")
    installation.state.mkdir(parents=True)
    write_programs(installation)
    write_journal(installation, Phase.COMMITTED)
    options = ["-I", "-S", "-W", "error"]
    command = [sys.executable, *options, str(installation.state / "updater.py"), str(installation.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    launched = subprocess.run([installation.launcher, "run", "x"], capture_output=True, text=True, check=False, cwd="/")
    assert (launched.stdout, launched.stderr) == ("2.0.0 run x\n", "")
    (copied,) = updaters(installation)
    assert {each.name for each in copied.iterdir()} == {each.name for each in PACKAGE.glob("*.py")}
    assert journal_of(installation).phase is Phase.COMMITTED


def test_any_launcher_has_any_updater(tmp_path: Path) -> None:
    """A power cut between the two files, or a version before 0.7 that is begun again."""
    installation = Installation(tmp_path / "i")
    installation.state.mkdir(parents=True)
    write_programs(installation)
    (installation.state / "updater.py").write_text(_FORMER)
    launched = subprocess.run([installation.launcher, "run"], capture_output=True, text=True, check=True)
    assert launched.stdout == "former ['run']\n"
