"""Which tests `make flaky` runs, how often and how, and what it counts."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.support import flaky
from tests.support.flaky import CONDITIONS, Round, changed_lines, coarse_clock, commands, main, table, without_step

_BY_NAME: Final = {condition.name: condition for condition in CONDITIONS}
_SOURCE: Final = '''"""Docstring."""
import os

LIMIT = 3

@mark
def test_first():
    assert LIMIT

class TestSecond:
    def test_inside(self):
        pass

def test_third():
    pass
'''


def test_the_lines_of_a_change() -> None:
    """A hunk without a number has one line; one that only removes touches the place where it was."""
    diff = "--- a\n+++ b\n@@ -3 +5 @@ def x\n+a\n@@ -9,2 +12,0 @@\n-b\n@@ -20,0 +30,4 @@\n+c\n"
    assert changed_lines(diff) == [range(5, 6), range(12, 13), range(30, 34)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([range(8, 9)], ["test_first"]),
        ([range(6, 7)], ["test_first"]),
        ([range(12, 13), range(15, 16)], ["TestSecond::test_inside", "test_third"]),
        ([range(2, 4)], []),
        ([range(4, 5)], None),
        ([range(11, 12)], ["TestSecond::test_inside"]),
    ],
)
def test_the_tests_of_lines(lines: list[range], found: list[str] | None) -> None:
    """A decorator belongs to its test; an import to none, and a constant to all."""
    assert flaky.tests_at(_SOURCE, lines) == found


def test_runs_of_a_condition() -> None:
    """Chosen tests are repeated in one run, but for a seed of its own; the whole suite is run again and again."""
    tests = ["a.py::test_a", "a.py::test_b", "b.py"]
    found = {
        name: [options for options, _ in commands(condition, tests, 3, is_whole=False, seed=5)]
        for name, condition in _BY_NAME.items()
    }
    repeated = ["--count=3", "--repeat-scope=session"]
    assert found["quiet"] == [["-n", "logical", "--randomly-seed=1", *repeated, *tests]]
    assert found["order"] == [["-n", "logical", f"--randomly-seed={seed}", *tests] for seed in (5, 6, 7)]
    assert found["alone"] == [["-n", "0", "--randomly-seed=1", *repeated, *file] for file in (tests[:2], tests[2:])]
    whole = list(commands(_BY_NAME["busy"], ["tests"], 2, is_whole=True, seed=5))
    assert whole == [
        (["-n", "logical", "--randomly-seed=5", "tests"], {"PYTHONHASHSEED": "4"}),
        (["-n", "logical", "--randomly-seed=6", "tests"], {"PYTHONHASHSEED": "5"}),
    ]


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("t.py::test_a[3-20]", "t.py::test_a"),
        ("t.py::test_a[b-1-3-20]", "t.py::test_a[b-1]"),
        ("t.py::test_a[b]", "t.py::test_a[b]"),
    ],
)
def test_a_name_without_its_repetition(nodeid: str, name: str) -> None:
    assert without_step(nodeid) == name


def test_repetitions_come_one_after_the_other_and_not_of_pods_that_tests_change() -> None:
    """Each test runs once before any runs a second time; on a node that is shared, it runs once."""

    def item(nodeid: str, step: int | None) -> Any:
        params = {} if step is None else {"callspec": SimpleNamespace(params={"__pytest_repeat_step_number": step})}
        return SimpleNamespace(nodeid=nodeid, **params)

    crowd = "tests/end_to_end/crowd/test_it.py::test_a"
    items = [item("a", 1), item("a", 0), item(crowd, 1), item(crowd, 0), item("b", None)]
    flaky.pytest_collection_modifyitems(items)
    assert [each.nodeid for each in items] == ["a", crowd, "b", "a"]


def test_the_table() -> None:
    rounds = {"quiet": Round(1, 4000, Counter(), 0, 61.4), "busy": Round(2, 18, Counter({"t.py::test_a": 2}), 1, 9.0)}
    assert table(rounds).splitlines()[2:] == [
        "| quiet | 1 | 4,000 | 0 | 61 |",
        "| busy | 2 | 18 | 3 | 9 |",
        "busy: 2 × t.py::test_a",
        "busy: 1 × a run that failed without a failed test",
    ]


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc is not installed (apt-get install gcc)")
def test_clocks_advance_in_steps(tmp_path: Path) -> None:
    """Both that tests read, in a process that has the library; what it measures its own time with goes on."""
    code = "import time; print([f() % 10_000_000 for f in (time.time_ns, time.monotonic_ns)])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=coarse_clock(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[0, 0]"


def test_a_test_that_fails_sometimes_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With how often it failed; the status says so, too."""
    file = tmp_path / "test_it.py"
    file.write_text("seen = []\ndef test_once():\n    seen.append(1)\n    assert len(seen) != 2\ndef test_b(): pass\n")
    assert main([str(file), "--times", "3", "--conditions", "alone"]) == 1
    said = capsys.readouterr().out
    assert "| alone | 1 | 5 | 1 |" in said
    assert "test_it.py::test_once" in said
    assert main([str(file) + "::test_b", "--times", "3", "--conditions", "alone"]) == 0


def test_an_unknown_condition_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--conditions", "quiet,moon"])
    assert "unknown: moon; there are quiet, busy, ticks, one-core, order, alone" in capsys.readouterr().err
