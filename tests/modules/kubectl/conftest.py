"""A cloudcore for a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.kubectl.cloud import Cloud
from tests.modules.processes.cloudcore.stubs import Stub


@pytest.fixture(scope="module")
def module_stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stub]:
    """A running cloudcore for those tests of a module that change nothing."""
    with Stub(tmp_path_factory.mktemp("cloud")) as stub:
        yield stub


@pytest.fixture
def empty_cloud(module_stub: Stub, capsys: pytest.CaptureFixture[str]) -> Cloud:
    """A running cloudcore without objects, for tests that make none: others of the module have it, too."""
    return Cloud(module_stub, capsys)


@pytest.fixture
def cloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cloud]:
    """A running cloudcore without objects."""
    with Stub(tmp_path) as stub:
        yield Cloud(stub, capsys)
