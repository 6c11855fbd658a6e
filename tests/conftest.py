"""What holds for all tests: a slow machine fails none, each leaves the log as it was; how processes share them."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from beehive.quiet import COSTLY
from tests.end_to_end.processes import mounts_below

settings.register_profile("edgecore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgecore")


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A handler that stayed would write to a stream that is closed, and pytest's own would be gone."""
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in COSTLY)]
    levels, handlers = [logger.level for logger in loggers], loggers[0].handlers[:]
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A node that is stopped leaves its pods' volumes mounted, as a kubelet does; a test's are in its own directory."""
    yield
    for point in sorted(mounts_below(tmp_path_factory.getbasetemp()), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)


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
