"""Nodes with a running OCI runtime, and the proof that nothing of them is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.runtimes.oci.node import OciNode, RemoteOciNode, node_directory


@pytest.fixture
def node_root() -> Iterator[Path]:
    """A directory with a short path (sockets) and the archive of busybox."""
    with node_directory() as made:
        yield made


@pytest.fixture
def node(node_root: Path) -> Iterator[OciNode]:
    """A node with a runtime in this process."""
    with OciNode(node_root) as started:
        yield started


@pytest.fixture
def remote(node_root: Path) -> Iterator[RemoteOciNode]:
    """A node whose runtime can be killed."""
    with RemoteOciNode(node_root) as started:
        yield started


@pytest.fixture
def doomed(node_root: Path) -> Iterator[RemoteOciNode]:
    """A node whose runtime a test starts so that it dies at a step."""
    made = RemoteOciNode(node_root)
    try:
        yield made
    finally:
        made.__exit__()
