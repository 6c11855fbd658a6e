"""A dockerd for this directory's tests, nodes on it, and the proof that nothing of them is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.runtimes.docker.node import DockerNode, RemoteDockerNode, node_directory
from tests.support.dockerd import PrivateDockerd, reason_missing


@pytest.fixture(scope="package")
def dockerd() -> Iterator[PrivateDockerd]:
    """A Docker Engine of this test worker's own."""
    if reason := reason_missing():
        pytest.skip(reason)
    with PrivateDockerd() as daemon:
        yield daemon


@pytest.fixture
def node_root(dockerd: PrivateDockerd) -> Iterator[Path]:
    """A directory with a short path (sockets)."""
    with node_directory(dockerd) as made:
        yield made


@pytest.fixture
def node(node_root: Path, dockerd: PrivateDockerd) -> Iterator[DockerNode]:
    """A node with a runtime in this process."""
    with DockerNode(node_root, dockerd) as started:
        yield started


@pytest.fixture
def remote(node_root: Path, dockerd: PrivateDockerd) -> Iterator[RemoteDockerNode]:
    """A node whose runtime can be killed."""
    with RemoteDockerNode(node_root, dockerd) as started:
        yield started


@pytest.fixture
def doomed(node_root: Path, dockerd: PrivateDockerd) -> Iterator[RemoteDockerNode]:
    """A node whose runtime a test starts so that it dies at a step."""
    made = RemoteDockerNode(node_root, dockerd)
    try:
        yield made
    finally:
        made.__exit__()
