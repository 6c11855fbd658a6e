"""Any tree that a container can make is removed, and nothing but it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beehive.files.removal import _Removal, remove_tree
from tests.beehive.files.trees import DEEP, make_deep, no_way_down, open_below
from tests.support.directories import short_directory

_AMONG_FEW = """
import sys
from pathlib import Path
from beehive.files.removal import remove_tree
from tests.beehive.files.trees import few_descriptors
with few_descriptors(8):
    remove_tree(Path(sys.argv[1]))
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting and becoming another user need root")


@pytest.mark.parametrize("depth", [1, 15, 16, 17, 33, DEEP])
def test_a_tree_of_any_depth_goes(tmp_path: Path, depth: int) -> None:
    """`shutil.rmtree` ends with RecursionError; a path may have 4,096 bytes."""
    top = make_deep(tmp_path / "top", depth, name="d" * 20)
    with no_way_down():
        remove_tree(top)
    assert list(tmp_path.iterdir()) == []
    assert open_below(tmp_path) == 0


def test_a_wide_and_deep_tree_goes(tmp_path: Path) -> None:
    """Many deep ones beside each other, with files at every level."""
    top = tmp_path / "top"
    for number in range(20):
        make_deep(top / str(number), 40, files=True)
    for number in range(500):
        (top / f"f{number}").touch()
    remove_tree(top)
    assert not top.exists()


def test_a_tree_that_somebody_else_removes_meanwhile_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands may remove a pod's directory: that the other one was first is no failure."""
    top = tmp_path / "top"
    (top / "within").mkdir(parents=True)

    def elsewhere(*_: object) -> bool:
        shutil.rmtree(top)
        return False

    monkeypatch.setattr(_Removal, "_was_empty", elsewhere)
    remove_tree(top)
    assert not top.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    top = make_deep(tmp_path / "top", 30)
    (top / "link").symlink_to(precious)
    (top / "dangling").symlink_to("nowhere")
    remove_tree(top)
    (tmp_path / "alias").symlink_to(precious)
    remove_tree(tmp_path / "alias")
    assert (precious / "file").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_missing_path_is_no_error_and_a_file_is_removed(tmp_path: Path) -> None:
    remove_tree(tmp_path / "missing")
    remove_tree(tmp_path / "missing" / "too")
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    """A node that is short of them still gets rid of pods. Other tests' threads open files, so a process does it."""
    top = make_deep(tmp_path / "top", 300)
    subprocess.run([sys.executable, "-c", _AMONG_FEW, top], check=True, cwd=Path(__file__).parents[3])
    assert not top.exists()


def test_an_entry_that_cannot_be_removed_is_reported_and_the_others_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a file that the file system refuses to remove."""
    top = tmp_path / "top"
    make_deep(top / "deep", 40)
    (top / "a").mkdir()
    (top / "a" / "stuck").touch()
    real = os.unlink

    def unlink(name: str, *, dir_fd: int) -> None:
        if name == "stuck":
            raise PermissionError(1, "Operation not permitted")
        real(name, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        with pytest.raises(OSError, match=r"not permitted.*top: stuck"):
            remove_tree(top)
    assert sorted(path.name for path in top.rglob("*")) == ["a", "stuck"]
    remove_tree(top)
    assert not top.exists()


def test_entries_that_appear_meanwhile_are_removed_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that is still ending may write new files."""
    top = tmp_path / "top"
    (top / "a").mkdir(parents=True)
    real, left = os.rmdir, [3]

    def rmdir(name: str, *, dir_fd: int) -> None:
        if left[0]:
            left[0] -= 1
            (top / "a" / f"new-{left[0]}").touch()
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", rmdir)
    remove_tree(top)
    assert not top.exists()
    (top / "a").mkdir(parents=True)
    left[0] = 10**9
    with pytest.raises(OSError, match="not empty"):
        remove_tree(top)


@needs_root
def test_mounts_in_the_tree_are_not_entered(tmp_path: Path) -> None:
    """A bind mount of the same file system too, which has the same device."""
    precious, top = tmp_path / "precious", tmp_path / "top"
    precious.mkdir()
    (precious / "file").write_text("kept")
    point = make_deep(top, 5) / "d/d/d/d/d/point"
    point.mkdir()
    subprocess.run(["mount", "--bind", precious, point], check=True)
    try:
        with pytest.raises(OSError, match="mounted"):
            remove_tree(top)
    finally:
        subprocess.run(["umount", point], check=True)
    assert (precious / "file").read_text() == "kept"
    remove_tree(top)
    assert not top.exists()


_AS_NOBODY = """
import os, sys
from pathlib import Path
from beehive.files.removal import remove_tree
from tests.beehive.files.trees import make_deep
from tests.support.directories import short_directory
os.setgroups([]); os.setgid(65534); os.setuid(65534)
top = Path(sys.argv[1]) / "top"
make_deep(top, 40)
at = os.open(top, os.O_RDONLY)
for _ in range(40):
    below = os.open("d", os.O_RDONLY, dir_fd=at)
    os.chmod(f"/proc/self/fd/{at}", 0)
    at = below
remove_tree(top)
assert not top.exists()
"""


@needs_root
def test_directories_that_nobody_may_read_go_without_root() -> None:
    """As an agent without root does with what its containers have closed."""
    with short_directory("removal-", mode=0o755) as directory:
        own = directory / "own"
        own.mkdir()
        own.chmod(0o777)
        subprocess.run([sys.executable, "-c", _AS_NOBODY, own], check=True, cwd=Path(__file__).parents[3])
        assert list(own.iterdir()) == []
