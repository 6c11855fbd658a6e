"""Fixtures of metamanager's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a database that is not there yet."""
    return tmp_path / "edgecore.db"
