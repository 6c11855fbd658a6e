"""cloudhub alone on a hive, and a node that is connected."""

from collections.abc import Iterator

import pytest

from beehive.testing import Harness
from tests.modules.cloud.cloudhub.test_module import Cloud, ListLink


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Harness() as bee:
        yield Cloud(bee)


@pytest.fixture
def link(cloud: Cloud) -> ListLink:
    """A link of the node n1."""
    return cloud.connect()
