"""What several files of tests begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive import Group, ModuleName
from tests.edgehub.beds import Bed


@pytest.fixture
def bed() -> Iterator[Bed]:
    """Linked, with metamanager and edged recorded."""
    made = Bed()
    made.recorder(ModuleName.METAMANAGER, Group.META)
    made.recorder(ModuleName.EDGED, Group.EDGED)
    with made.bee:
        made.bee.start()
        yield made


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """A directory in memory: messages and certificates are flushed, thousands of times."""
    return memory_path
