"""What holds for all tests: a slow machine fails none of them; how they are shared out among several processes."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("edgecore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgecore")

TOGETHER: Final = "tests/end_to_end/crowd/"
"""Tests that have one costly thing in common, and therefore go to one process."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Each test goes to whichever process has nothing to do, but for those that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Instead of the one that `--dist` names."""
    return Scheduling(config, log)
