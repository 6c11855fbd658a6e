"""What tests of devicetwin share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.edge.devicetwin.recorded import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """metamanager and devicetwin, in virtual time."""
    made = Node(tmp_path, name="n1")
    yield made
    made.stop()
