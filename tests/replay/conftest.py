"""What tests of replays share."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """A directory in memory: the databases of recorded nodes are flushed again and again."""
    return memory_path
