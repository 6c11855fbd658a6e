"""Worlds with two nodes: one of the test's own, and one for all tests that must not change it."""

from collections.abc import Iterator

import pytest

from beehive.testing import Harness
from tests.modules.cloud.authorization.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A world of this test's own."""
    with Harness() as bee:
        yield World(bee)


@pytest.fixture(scope="module")
def kept_world() -> Iterator[World]:
    """A world for many tests; each asserts that it is unchanged."""
    with Harness() as bee:
        yield World(bee)


@pytest.fixture
def untouched(kept_world: World) -> World:
    """A world for tests without effects; asserts that nothing has changed."""
    kept_world.bee.forget()
    return kept_world
