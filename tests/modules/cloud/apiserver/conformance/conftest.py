"""A world for each test: it costs less than a millisecond."""

import pytest

from tests.modules.cloud.apiserver.conformance.world import World


@pytest.fixture
def world() -> World:
    return World()
