"""Private files, and what SQLite has of them."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from beehive.files.private import make_private

READ = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(*c.execute('SELECT * FROM t')); c.close()"


@pytest.mark.parametrize("mode", [None, 0o644, 0o600, 0o400])
def test_nobody_else_may_read_it(mode: int | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if mode is not None:
        path.write_text("kept")
        path.chmod(mode)
    make_private(path)
    assert path.stat().st_mode & 0o777 == (0o400 if mode == 0o400 else 0o600)
    assert path.read_text() == ("" if mode is None else "kept")


def test_a_link_is_followed_also_to_a_file_that_is_to_be(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("there")
    make_private(tmp_path / "link")
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "link").is_symlink()


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_private(tmp_path / "no" / "file")


@pytest.mark.parametrize(("make", "error"), [(Path.mkdir, IsADirectoryError), (os.mkfifo, OSError)])
def test_what_is_no_file_is_an_error_and_keeps_its_permissions(
    make: Callable[[Path], None], error: type[OSError], tmp_path: Path
) -> None:
    """A directory that is given for a database would be closed to its users, and the program's own."""
    path = tmp_path / "other"
    make(path)
    path.chmod(0o755)
    with pytest.raises(error):
        make_private(path)
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_database_in_use_keeps_its_log_when_another_program_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (n)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        make_private(path)
        done = subprocess.run([sys.executable, "-c", READ, os.fspath(path)], capture_output=True, text=True, check=True)
        assert done.stdout == "(1,)\n"
        assert path.with_name("x.db-wal").exists()
