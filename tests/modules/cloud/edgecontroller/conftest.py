"""edgecontroller alone, with two nodes connected."""

from collections.abc import Iterator

import pytest

from beehive.testing import Harness
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController
from tests.modules.cloud.edgecontroller.controller import Controller


@pytest.fixture
def controller() -> Iterator[Controller]:
    with Harness() as bee:
        yield Controller(bee)


@pytest.fixture
def core() -> Iterator[ClusterController]:
    with Harness() as bee:
        yield ClusterController(bee)
