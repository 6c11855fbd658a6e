"""Each process of pytest-xdist has files of its own, and together they have all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs import REPOSITORY
from tests.support import extended
from tests.support.directories import VARIABLE
from tests.support.extended import WALKS, holds_only_extended, is_extended, leaves_out
from tests.support.sharing import BROWSER, TOGETHER, shares, turn

_DIES: Final = """
import os
import pytest

@pytest.mark.parametrize("case", range(4))
def test_case(case):
    print(os.environ["PYTEST_XDIST_WORKER"])
    if case == 1:
        os.kill(os.getpid(), 9)
"""


def test_all_files_are_dealt_out_once_by_weight() -> None:
    weights = {f"tests/test_{number}.py": float(number) for number in range(1, 30)}
    dealt = shares(weights, 4)
    assert sorted(path for share in dealt for path in share) == sorted(weights)
    assert dealt == [sorted(share, key=[*weights].index) for share in dealt], "the nearest to a change come first"
    loads = [sum(weights[path] for path in share) for share in dealt]
    assert max(loads) - min(loads) <= 2.0


def test_more_processes_than_files() -> None:
    assert shares({"tests/test_a.py": 1.0}, 3) == [["tests/test_a.py"], [], []]


@pytest.mark.parametrize("together", [BROWSER, tuple(f"{TOGETHER[0]}test_{name}.py" for name in "abc")])
def test_what_shares_something_is_in_one_process(together: tuple[str, ...]) -> None:
    dealt = shares(dict.fromkeys((*together, "tests/test_a.py", "tests/test_b.py"), 1.0), 2)
    assert [len({*together} & {*share}) for share in dealt] in ([len(together), 0], [0, len(together)])
    names = [f"{together[0]}::a", "tests/test_a.py::b", f"{together[-1]}::c"]
    assert sorted(names, key=turn) == [names[0], names[2], names[1]]


@pytest.mark.parametrize(
    ("markers", "left_out"),
    [
        ("not slow and not extended", True),
        ("not slow", False),
        ("extended and not slow", False),
        ("slow or hypothesis", False),
        ("", False),
    ],
)
def test_files_are_left_out_whose_tests_would_be_deselected(markers: str, left_out: bool) -> None:
    assert leaves_out(markers) is left_out


@pytest.mark.parametrize("entry", sorted({*extended.WALKS, *extended._FILES}))
def test_what_is_left_out_and_what_is_not_are_there(entry: str) -> None:
    path, _, name = entry.partition("::")
    file = REPOSITORY / path
    assert file.exists()
    assert not name or f"def {name}" in file.read_text()


def test_a_file_with_a_walk_is_collected_and_only_the_walk_is_run() -> None:
    file, _, name = next(walk for walk in WALKS if "::" in walk).partition("::")
    assert (holds_only_extended(file), is_extended(f"{file}::{name}"), is_extended(f"{file}::test_x")) == (
        False,
        False,
        True,
    )


def test_the_successor_of_a_process_that_died_runs_the_rest_and_not_what_it_died_of(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(_DIES if name == "b" else "def test_it(): pass\n")
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:randomly", "-n2", "--rootdir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    del environment[VARIABLE]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 5 passed" in done.stdout, done.stdout
    assert "FAILED test_b.py::test_case[1]" in done.stdout
