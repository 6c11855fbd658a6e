"""Reading a file whose content somebody else decides."""

import errno
import os
from pathlib import Path

import pytest

from beehive.files.reading import list_directory, read_file


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 100_000])
def test_a_file_is_read_whole_up_to_the_limit_and_no_longer_one_in_part(size: int, tmp_path: Path) -> None:
    """The beginning of a file that is too long would be taken for all of it."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    assert read_file(path, size) == path.read_bytes()
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(OSError, match=f"more than {size} bytes") as raised:
        read_file(path, size)
    assert raised.value.errno == errno.EFBIG


def test_a_pipe_or_a_directory_in_the_place_of_a_file_is_an_error_immediately(tmp_path: Path) -> None:
    """Nobody writes into the pipe."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("pipe", "directory"):
        with pytest.raises(OSError, match="no ordinary file"):
            read_file(tmp_path / name, 100)


def test_a_directory_is_listed_and_one_that_is_missing_or_a_file_has_no_entries(tmp_path: Path) -> None:
    for name in ("b", ".a", "c"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in list_directory(tmp_path)] == [".a", "b", "c"]
    assert list_directory(tmp_path / "d") == list_directory(tmp_path / "b") == []
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        list_directory(tmp_path / "loop")
