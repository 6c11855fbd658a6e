"""Nodes with a running process runtime, and the proof that nothing of them is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.runtimes.process.node import LocalNode, node_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a short path (sockets) that every user may pass through."""
    with node_directory() as made:
        yield made


@pytest.fixture
def node(directory: Path) -> Iterator[LocalNode]:
    """A node with a runtime in this process."""
    with LocalNode(directory) as started:
        yield started
