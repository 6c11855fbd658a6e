"""What tests of the node's modules share."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """A directory in memory: the node's database is flushed, thousands of times."""
    return memory_path
