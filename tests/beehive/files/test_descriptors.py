"""What is mounted at a directory."""

from pathlib import Path

from beehive.files.descriptors import is_mounted


def test_another_file_system_is_a_mount(tmp_path: Path) -> None:
    """A directory within its own is none, nor is a missing one."""
    (tmp_path / "inside").mkdir()
    found = [is_mounted(path) for path in (Path("/proc"), tmp_path / "inside", tmp_path / "missing" / "too")]
    assert found == [True, False, False]
