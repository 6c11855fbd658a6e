"""What tests of cloudcore share."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """A directory in memory: databases and certificates are flushed, thousands of times."""
    return memory_path
