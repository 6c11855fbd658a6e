"""The directories of backups that are being made."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from modules.processes.common.backup import archive
from modules.processes.common.backup.commands import head_of
from modules.processes.common.backup.scratch import scratch_for_a_backup


def _killed_with_a_copy(target: Path) -> None:
    with scratch_for_a_backup(target) as scratch:
        (scratch / "edgecore.db").write_text("secret")
        os._exit(0)


def _killed_at_the_end(target: Path) -> None:
    vars(archive)["put_in_place"] = lambda *_: os._exit(0)
    archive.write_archive(target, head_of("edgecore", "n1"), [])


@pytest.mark.parametrize("killed", [_killed_with_a_copy, _killed_at_the_end])
def test_a_directory_of_a_killed_command_is_removed_and_no_other(
    tmp_path: Path, killed: Callable[[Path], None]
) -> None:
    """It has a copy of the database, or the secrets in half an archive."""
    target = tmp_path / "backup.tar.gz"
    child = os.fork()
    if not child:
        killed(target)
    os.waitpid(child, 0)
    left = [*tmp_path.iterdir()]
    assert len(left) == 1
    others = tmp_path / ".backup-of-mine"
    others.mkdir()
    with scratch_for_a_backup(target) as first:
        assert not left[0].exists()
        (first / "edgecore.db").write_text("secret")
        with scratch_for_a_backup(target) as second:
            assert (first / "edgecore.db").exists()
            assert second != first
    assert list(tmp_path.iterdir()) == [others]


def test_a_backup_is_made_where_directories_have_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS locks only what can be opened for writing."""
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(9, "Bad file descriptor")))
    with scratch_for_a_backup(tmp_path / "a") as first, scratch_for_a_backup(tmp_path / "b") as second:
        assert first.is_dir()
        assert second.is_dir()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_only_has_such_a_name_stays(tmp_path: Path, kind: str) -> None:
    with scratch_for_a_backup(tmp_path / "backup.tar.gz") as scratch:
        name = scratch.name
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").touch()
    path = tmp_path / name
    if kind == "link":
        path.symlink_to(elsewhere)
    else:
        path.touch()
    with scratch_for_a_backup(tmp_path / "backup.tar.gz"):
        assert path.exists()
        assert (elsewhere / "a").exists()
