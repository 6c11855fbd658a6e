"""What tests of modules share."""

from collections.abc import Iterator

import pytest

from beehive.testing import Harness


@pytest.fixture
def bee() -> Iterator[Harness]:
    """A bus in virtual time, for one module."""
    with Harness() as made:
        yield made
