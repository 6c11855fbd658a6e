"""Sub-ids in /etc/subuid."""

from pathlib import Path

import pytest

from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.oci.rootless.identifiers import Account, sub_ids

_EVE = Account("eve", 1001)


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "subuid"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("eve:100000:65536\n", 100000),
        ("1001:165536:65536\n", 165536),
        ("bob:100000:65536\neve:165536:65536\n", 165536),
        ("eve:50000:10\neve:200000:70000\n", 200000),
        ("# eve:1:65536\n\neve:x:65536\neve:100000\neve:100000:65536\n", 100000),
        ("bob:100000:65536\nbob:100000:65536\neve:300000:65536", 300000),
    ],
)
def test_the_first_range_that_is_large_enough(tmp_path: Path, text: str, start: int) -> None:
    """By the user's name or number; other lines do not count."""
    assert sub_ids(_EVE, _file(tmp_path, text)).start == start


@pytest.mark.parametrize("text", ["", "eve:100000:65535\n", "bob:100000:65536\n", "evelyn:1:65536\n"])
def test_without_a_range_the_command_is_named(tmp_path: Path, text: str) -> None:
    """With ids that nobody has."""
    with pytest.raises(StateDirectoryError, match=r"usermod --add-subuids \d+-\d+ --add-subgids \d+-\d+ eve"):
        sub_ids(_EVE, _file(tmp_path, text))


def test_a_missing_file_is_no_range(tmp_path: Path) -> None:
    """As on a machine without the package uidmap."""
    with pytest.raises(StateDirectoryError, match="eve has no 65536 sub-ids"):
        sub_ids(_EVE, tmp_path / "subuid")


@pytest.mark.parametrize("other", ["bob:165535:65536", "bob:100001:5", "bob:99999:2", "1002:1:4000000000"])
def test_ids_of_two_users_are_refused_by_name(tmp_path: Path, other: str) -> None:
    """Each could read the files of the other's containers."""
    name = other.partition(":")[0]
    with pytest.raises(StateDirectoryError, match=f"are {name}'s, too"):
        sub_ids(_EVE, _file(tmp_path, f"eve:100000:65536\n{other}\n"))
    assert sub_ids(_EVE, _file(tmp_path, "eve:100000:65536\nbob:165536:65536\n1001:100000:65536\n")).start == 100000
