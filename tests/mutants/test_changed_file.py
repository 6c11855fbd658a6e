"""A changed file is seen by a child and its processes, and by nobody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.selection import ROOT
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process mounts of its own")

RUN = """
import os, subprocess, sys
from pathlib import Path

from tests.mutants.changed_file import run_with_file

module = Path(sys.argv[1])


def imports() -> int:
    program = f"import sys; sys.path.append('{module.parent}'); import product_of_mutants"
    return subprocess.run([sys.executable, "-I", "-c", program], check=False).returncode


def leaves() -> int:
    subprocess.Popen(["sleep", "1000"], pass_fds=[int(sys.argv[4])], start_new_session=True)
    subprocess.run(["sh", "-c", "true & echo $! >pid"], check=True)
    orphan = Path("/proc", Path("pid").read_text().strip())
    while orphan.exists():
        os.sched_yield()
    return 0


def hangs() -> int:
    return subprocess.run(["sleep", "1000"], check=False).returncode


print(run_with_file(module, "raise SystemExit(5)", globals()[sys.argv[2]], float(sys.argv[3])))
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A module that exits with 3, in a directory with a cache."""
    (tmp_path / "__pycache__").mkdir()
    path = tmp_path / "product_of_mutants.py"
    path.write_text("raise SystemExit(3)")
    return path


def run(module: Path, what: str, limit: float = PATIENCE, kept: int = 2) -> str:
    """Do something in a child with a changed module, from a process that has no threads: this one may have some."""
    command = [sys.executable, "-c", RUN, str(module), what, str(limit), str(kept)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=module.parent, env=environment, capture_output=True, text=True, check=False, pass_fds=[kept]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_all_processes_of_a_child_see_the_changed_file(module: Path) -> None:
    """Also those that import it without the environment; neither it nor what is compiled of it stays."""
    assert run(module, "imports") == "5"
    assert module.read_text() == "raise SystemExit(3)"
    assert list((module.parent / "__pycache__").iterdir()) == []


def test_what_the_child_has_started_ends_with_it(module: Path) -> None:
    """A changed program may never end; and an orphan that has ended is no child for ever."""
    read, write = os.pipe()
    with os.fdopen(read) as ended:
        with os.fdopen(write, "w"):
            assert run(module, "leaves", kept=write) == "0"
        assert ended.read() == ""


def test_a_child_that_takes_too_long_is_killed(module: Path) -> None:
    assert run(module, "hangs", 0.1) == "None"
