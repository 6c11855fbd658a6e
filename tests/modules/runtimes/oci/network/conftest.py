"""Directories and namespaces that are gone after each test."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.network.namespaces import PodNamespaces
from tests.modules.runtimes.oci.network.machine import network_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    """An empty directory."""
    with network_directory() as path:
        yield path


@pytest.fixture
def namespaces(directory: Path) -> Iterator[PodNamespaces]:
    """Namespaces in the directory's `ns`."""
    made = PodNamespaces(directory / "ns")
    try:
        yield made
    finally:
        with suppress(FileNotFoundError):  # a test has removed them itself
            made.remove()


@pytest.fixture
def clock() -> Iterator[RealClock]:
    """The machine's clock."""
    made = RealClock()
    yield made
    made.close()
