"""A cloudcore for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.tools.kubectl.cloud import Cloud


@pytest.fixture
def cloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cloud]:
    """A running cloudcore without objects."""
    with Stub(tmp_path) as stub:
        yield Cloud(stub, capsys)
