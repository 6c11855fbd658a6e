"""The simulation has a law of its own about modules that fail."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark its tests: modules of a cloud fail with their database."""
    for item in items:
        if item.nodeid.startswith("tests/simulation/"):
            item.add_marker("modules_fail")
