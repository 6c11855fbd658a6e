"""Settings of all tests: profiles of Hypothesis, the log is restored after each, and how processes share them."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from beehive.library_logging import COSTLY
from tests.end_to_end.processes import mounts_below
from tests.support import profiles
from tests.support.leftovers import remove_host_port_rules
from tests.support.spread import spread

profiles.register()

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
def directories_are_spread(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let ext4 put the tests' directories apart from what earlier tests have deleted."""
    spread(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unmount volumes below pytest's directory: a stopped node leaves its pods' volumes mounted, as a kubelet does."""
    yield
    for point in sorted(mounts_below(tmp_path_factory.getbasetemp()), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)


def pytest_sessionstart() -> None:
    """The profile is known by now: `--hypothesis-profile` has been read."""
    profiles.fix_examples()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove what tests of all processes share, when they have ended."""
    if not hasattr(session.config, "workerinput"):
        remove_host_port_rules()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare the garbage collector what was imported and collected: it stays until the end."""
    gc.collect()
    gc.freeze()


TOGETHER: Final = (
    "tests/documentation/test_site.py",
    "tests/edged/dockershim/",
    "tests/edged/embedded/test_mounts.py",
    "tests/edged/oci/images/test_like_containerd.py",
    "tests/end_to_end/crowd/",
    "tests/modules/cloud/apiserver/test_database.py",
    "tests/modules/processes/cloudcore/test_shared.py",
    "tests/modules/tools/trace_tools/test_view.py",
    "tests/packaging/test_wheel.py",
    "tests/replay/test_deletions.py",
    "tests/replay/test_recorded_process.py",
    "tests/replay/test_simulated.py",
)
"""Tests that share a costly fixture: those of each place run in one process, one after the other."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each test to the next idle process, and all tests of a place in `TOGETHER` to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what a process has completed: the base class counts all of it again after each test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Return the scheduler, in place of the one that `--dist` names."""
    return Scheduling(config, log)
