"""A run says why it failed, where its output is, how to repeat it, and what its skipped tests want."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs import REPOSITORY
from tests.support.closing import repeat, sentence
from tests.support.directories import VARIABLE
from tests.support.wanting import WANTS, Wanting

_TESTS: Final = """
import os
import subprocess
import pytest

@pytest.mark.parametrize("case", ["a", "it's b"])
def test_case(case):
    print("what the test printed")
    assert case == "a"

def test_skipped():
    pytest.skip("not installed: chromedriver (.ci/install-browser)")
"""
_LEAVES: Final = """
import os
import pathlib

def test_leaves():
    pathlib.Path(f"/tmp/closing-{os.environ['EDGECORE_TESTS']}").mkdir()
"""


def test_the_sentence() -> None:
    """One failure is named, of several the first."""
    assert sentence([], ["it has left a mount"], "/tmp/t-x/failures.txt", None) == "the run failed: it has left a mount"
    assert sentence(["t.py::test_a"], [], "/tmp/log", None).splitlines()[0] == (
        "the run failed: 1 test failed, t.py::test_a; the output of all that failed is in /tmp/log"
    )
    said = sentence(["t.py::test_a", "t.py::test_b"], ["it has left a mount"], "/tmp/log", None)
    assert said.startswith("the run failed: 2 tests failed, the first of them t.py::test_a; it has left a mount; ")


def test_a_run_is_repeated_with_its_hashes_and_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell reads the command as it is."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert repeat("t.py::test_a[b c]", "1") == "PYTHONHASHSEED=0 .venv/bin/pytest --randomly-seed=1 't.py::test_a[b c]'"
    monkeypatch.delenv("PYTHONHASHSEED")
    assert repeat("t.py::test_a", None) == ".venv/bin/pytest t.py::test_a"


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("only root may mount", "root"),
        ("the tests do not run as root", "root"),
        ("an ordinary user runs these tests, and this is root", "an ordinary user"),
        ("not installed: chromium, chromedriver (.ci/install-browser)", "a browser and its driver"),
        ("PostgreSQL is not installed", "PostgreSQL"),
        ("not installed: containerd (.ci/install-runtime installs them)", "container runtimes and their like"),
        ("mosquitto is not installed (.ci/install-runtime)", "container runtimes and their like"),
        ("conmon is not installed", "container runtimes and their like"),
        ("apparmor_parser is not installed", "AppArmor's programs"),
        ("promtool is not installed (.ci/install-tools)", "programs that tests call"),
        ("there is no tc on this machine (apt-get install iproute2)", "programs that tests call"),
        ("there is no kubectl 1.27 on this machine", "kubectl of a version that they compare with"),
        ("MkDocs is not installed (pip install 'edgecore[docs]')", "the site's tools"),
        ("this kernel has no id-mapped mounts below overlays", "what this machine's kernel or set-up lacks"),
        ("containerd has no metrics", "what a runtime does not offer"),
    ],
)
def test_what_a_reason_wants(reason: str, name: str) -> None:
    """The first group whose expression is in it."""
    assert next(want.name for want in WANTS if re.search(want.reason, reason)) == name


@pytest.mark.parametrize("command", sorted({want.command for want in WANTS if want.command.startswith("bash ")}))
def test_the_commands_are_there(command: str) -> None:
    assert (REPOSITORY / command.split()[1]).exists()


def test_groups_of_skipped_tests() -> None:
    """The largest first; reasons are named where no command helps."""
    wanting = Wanting()
    for reason in ("PostgreSQL is not installed", "kubectl is not installed", "kubectl 1.27 is not here", "no moon"):
        wanting.add(reason)
    assert wanting.lines() == [
        "2 tests want kubectl of a version that they compare with: kubectl 1.27 is not here; kubectl is not installed",
        "1 test wants PostgreSQL: bash .ci/install-postgresql",
        "1 test: no moon",
    ]


def _run(tests: str, directory: Path, processes: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(tests)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0", "TMPDIR": "/tmp"}
    del environment[VARIABLE]
    environment.pop("CI", None)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes, "--rootdir", str(directory)]
    command = [sys.executable, "-m", "pytest", *options, "-c", os.devnull, "--randomly-seed=7", "test_it.py"]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_failed_run(processes: str, tmp_path: Path) -> None:
    """The output of its failures stays, and the last lines name it."""
    done = _run(_TESTS, tmp_path, processes)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    said, again = done.stdout.splitlines()[-2:]
    log = re.fullmatch(r"the run failed: 1 test failed, test_it.py::test_case\[it's b\]; .* is in (.+)", said)
    assert log is not None, done.stdout
    text = Path(log[1]).read_text()
    assert "what the test printed" in text
    assert "assert \"it's b\" == 'a'" in text
    assert again.startswith("repeat the first: PYTHONHASHSEED=0 .venv/bin/pytest --randomly-seed=7 ")
    assert "1 test wants a browser and its driver: bash .ci/install-browser" in done.stdout
    assert "SKIPPED" not in done.stdout


def test_a_run_that_leaves_something(tmp_path: Path) -> None:
    """It fails, and says for what."""
    done = _run(_LEAVES, tmp_path, "0")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    said = re.fullmatch(
        r"the run failed: it has left 1 thing on the machine: file (/tmp/closing-\S+)", done.stdout.splitlines()[-1]
    )
    assert said is not None, done.stdout
    Path(said[1]).rmdir()
