"""A world for each test: it costs less than a millisecond."""

from __future__ import annotations

import pytest

from tests.modules.cloud.apiserver.conformance.world import World


@pytest.fixture
def world() -> World:
    return World()
