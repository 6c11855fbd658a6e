"""Which tests `make flaky` runs, and what it counts."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.support import flaky
from tests.support.flaky import changed_lines, coarse_clock, main, without_step

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
