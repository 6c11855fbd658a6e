"""A run with a skipped test that nobody expects fails, and says which."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs import REPOSITORY
from tests.support.skips import patterns

TESTS: Final = """
import pytest
@pytest.mark.skipif(True, reason="there is no moon")
def test_moon(): pass
@pytest.mark.xfail(reason="not yet", strict=True)
def test_expected(): assert False
def test_passes(): pass
"""


def test_the_lines_of_a_user() -> None:
    """And the lines for every user; the rest are comments."""
    text = "# why\n\nroot a b\nuser c.*\nany  d\n"
    assert [one.pattern for one in patterns(text, "root")] == ["a b", "d"]
    assert [one.pattern for one in patterns(text, "user")] == ["c.*", "d"]


@pytest.mark.parametrize("line", ["nobody x", "root", "any (", "any "])
def test_a_wrong_line_is_refused(line: str) -> None:
    """With its number."""
    with pytest.raises(ValueError, match="line 2: "):
        patterns(f"any x\n{line}\n", "root")


def test_the_file_of_ci() -> None:
    """Its lines are right, and an ordinary user may skip what needs root."""
    text = (REPOSITORY / ".ci" / "skips.txt").read_text()
    assert not any(one.fullmatch("only root may mount") for one in patterns(text, "root"))
    assert any(one.fullmatch("only root may mount") for one in patterns(text, "user"))


@pytest.mark.parametrize(
    ("allowed", "processes", "status", "said"),
    [
        ("there is no (moon|sun)", "0", 0, "1 passed, 1 skipped, 1 xfailed"),
        ("no moon", "1", 1, "1 tests, such as test_it.py::test_moon: there is no moon"),
        ("(", "0", 4, "line 1: "),
    ],
)
def test_a_run(allowed: str, processes: str, status: int, said: str, tmp_path: Path) -> None:
    """In one process, and with pytest-xdist's."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "allowed.txt").write_text(f"any {allowed}\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.skips", "-p", "no:cacheprovider", "-n", processes]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-c", os.devnull, "--allowed-skips", "allowed.txt", "test_it.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
