"""Fixtures of metamanager's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a database that is not there yet."""
    return tmp_path / "edgecore.db"


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """A directory in memory: databases are flushed, thousands of times."""
    return memory_path
