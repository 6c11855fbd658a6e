"""Settings of all tests: no deadlines, the log is restored after each, and their distribution over processes."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from beehive.library_logging import COSTLY
from tests.end_to_end.processes import mounts_below

settings.register_profile("edgecore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgecore")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell without job control does that to what it starts in the background; processes of tests would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Restore loggers: a remaining handler would write to a closed stream, and pytest's own would be missing."""
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in COSTLY)]
    levels, handlers = [logger.level for logger in loggers], loggers[0].handlers[:]
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unmount volumes below pytest's directory: a stopped node leaves its pods' volumes mounted, as a kubelet does."""
    yield
    for point in sorted(mounts_below(tmp_path_factory.getbasetemp()), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)


TOGETHER: Final = "tests/end_to_end/crowd/"
"""Tests that share a costly fixture, and therefore run in one process."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each test to the next idle process, and all tests below `TOGETHER` to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Return the scheduler, in place of the one that `--dist` names."""
    return Scheduling(config, log)
