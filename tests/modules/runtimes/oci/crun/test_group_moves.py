"""The kernel is prepared for moves between control groups; files of this test stand for its hierarchies."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from modules.runtimes.oci.crun.group_moves import GroupMoves


@contextmanager
def _moves(directory: Path, groups: str) -> Iterator[GroupMoves]:
    (directory / "groups").write_text(groups)
    with closing(GroupMoves(directory / "groups", directory)) as made:
        yield made


def _member_file(path: Path, members: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(members)
    return path


def test_version_1(tmp_path: Path) -> None:
    """A thread of this process moves to its own group."""
    tasks = _member_file(tmp_path / "pids" / "a" / "b" / "tasks", f"1\n{os.getpid()}\n")
    with _moves(tmp_path, "9:memory:/other\n8:pids:/a/b\n0::/\n") as moves:
        moves.expect()
    written = int(tasks.read_text())
    assert written not in (0, os.getpid())


def test_version_2(tmp_path: Path) -> None:
    """There a thread cannot be moved alone: the process is."""
    members = _member_file(tmp_path / "a" / "cgroup.procs", f"{os.getpid()}\n1\n")
    with _moves(tmp_path, "0::/a\n") as moves:
        moves.expect()
    assert members.read_text() == str(os.getpid())


@pytest.mark.parametrize("members", ["1\n2\n", None], ids=["of others", "missing"])
def test_a_group_that_is_not_its_own(tmp_path: Path, members: str | None) -> None:
    """This process stays where it is, and nothing is written."""
    path = tmp_path / "a" / "cgroup.procs"
    if members is not None:
        _member_file(path, members)
    with _moves(tmp_path, "0::/a\n") as moves:
        moves.expect()
    assert (path.read_text() if path.exists() else None) == members


def test_the_groups_of_this_process() -> None:
    """It is in the same groups afterwards, whatever this machine has."""
    before = Path("/proc/self/cgroup").read_text()
    moves = GroupMoves()
    moves.expect()
    moves.close()
    assert Path("/proc/self/cgroup").read_text() == before
