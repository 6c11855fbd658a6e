"""Settings of all tests: profiles of Hypothesis, the log is restored after each, and how processes share them."""

import gc
import itertools
import logging
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from beehive.files.removal import remove_tree
from beehive.hive import Hive
from beehive.log_lines import COSTLY
from beehive.testing import HarnessHive
from modules.processes.common.memory import malloc_trim, set_up_malloc
from modules.runtimes.oci.mapped_roots import remove_top
from tests.docs import REPOSITORY
from tests.end_to_end.processes import comes_true, failed_modules
from tests.support import directories, extended, profiles, remains, reporting, sharing
from tests.support.closing import Closing, left_behind
from tests.support.leftovers import (
    CNI,
    LOOPBACK_RULE,
    clear,
    remove_cni_cache,
    remove_loopback_rule,
    remove_rules_for_ports,
    unmount_under,
)
from tests.support.patience import PATIENCE
from tests.support.spread import spread
from tests.support.swallowed import SwallowedErrors

profiles.register()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell without job control does that to what it starts in the background; processes of tests would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


_failed: Final[list[tuple[Hive, str]]] = []
"""The modules of hives of this process that have failed since the last test, with their errors."""
_swallowed: Final = SwallowedErrors()
_numbers: Final = itertools.count(1)
_TESTS_UNTIL_TRIM: Final = 500
"""Tests after which memory that large ones have freed is given back to the kernel: it would be 130 MB in the end."""


def _watch_modules() -> None:
    note = Hive.module_failed

    def module_failed(self: Hive, name: str, error: BaseException) -> None:
        _failed.append((self, f"{name}: {type(error).__name__}: {error}"))
        note(self, name, error)

    Hive.module_failed = module_failed  # type: ignore[method-assign]


# Hooks and no fixtures, which would cost each of 20,000 tests their look-up, setup and end


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore loggers: a remaining handler would write to a closed stream, and pytest's own would be missing."""
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in COSTLY)]
    levels, handlers = [logger.level for logger in loggers], loggers[0].handlers[:]
    loggers[0].addHandler(_swallowed)
    try:
        return (yield)
    finally:
        loggers[0].handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if next(_numbers) % _TESTS_UNTIL_TRIM == 0:
            malloc_trim()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Demand that no module has failed, of any hive and of the processes that tests start: it is started again, so a
    test may pass in spite of it. And that no thread went on after an error of the product's own.
    """
    try:
        yield
    finally:
        told, failed, swallowed = failed_modules(), _failed[:], _swallowed.take()
        _failed.clear()
        for hive, text in failed:
            if isinstance(hive, HarnessHive):
                hive.check_failures()
            else:
                told.append(text)
        if told and item.get_closest_marker("modules_fail") is None:
            wanted = "a module has failed; a test that wants it has the mark modules_fail"
            raise AssertionError(f"{wanted}: {'; '.join(told)}")
        if swallowed and item.get_closest_marker("modules_fail") is None:
            raise AssertionError(f"an error was logged, and nothing else happened: {'; '.join(swallowed)}")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory in memory: on a disk a thousand directories, or flushes, are waited for. What a killed process has
    written stays, flushed or not.
    """
    with directories.short_directory("memory-", directories.memory_parent()) as path:
        yield path


@pytest.fixture(scope="session", autouse=True)
def directories_are_spread(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let ext4 put the tests' directories apart from what earlier tests have deleted."""
    spread(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unmount volumes below pytest's directory: a stopped node leaves its pods' volumes mounted, as a kubelet does."""
    yield
    unmount_under(tmp_path_factory.getbasetemp())


_FAILED: Final = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)

_IS_ALONE: Final = os.environ.get("CI") == "true"
"""Whether nobody else works on the machine, so that what has no mark of this run is its own, too."""

_SETTLING: Final = 5.0
"""Seconds for the kernel to remove what belonged to the last process: nobody else would."""


class WholeRun:
    """The run in the process that starts the others: gives it a directory, and fails it if it leaves something."""

    def __init__(self, config: pytest.Config) -> None:
        directories.begin_run()
        self._before = remains.machine(REPOSITORY)
        self._left: list[str] = []
        self._changed: list[str] = []
        self._is_over = False
        self._directory, self._lock = directories.run_directory(directories.temporary_parent())
        if config.option.basetemp is None:
            config.option.basetemp = str(self._directory / "p")
        temporary = self._directory / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        self._closing = Closing(self._directory)
        config.pluginmanager.register(self._closing, "closing")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Remove what tests of all processes share, when they have ended, and look for what is left."""
        self._is_over = True
        directories.AT_END.close()
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            clear(directories.mark(), self._directory)
        # what was killed may still be dying; and a runtime that still runs makes its rules again
        comes_true(lambda: not remains.processes(directories.mark()), PATIENCE)
        if exitstatus not in _FAILED:
            self._remove()
        comes_true(self._is_clean, _SETTLING)
        if self._left:
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
            self._closing.fails_for(left_behind(self._left))

    def pytest_unconfigure(self) -> None:
        """Remove the directory of a run that did not begin, as of `--help`."""
        if not self._is_over:
            self._remove()

    def _remove(self) -> None:
        with suppress(OSError):  # its mounts are reported
            remove_tree(self._directory)

    def _remove_shared(self) -> None:
        """Remove what the runs of a machine share and this one has made, if no other run goes on."""
        if remains.others_run(directories.mark()):
            return
        if not remains.had_rule(self._before, LOOPBACK_RULE):
            remove_loopback_rule()
        if not remains.had_rule(self._before, "CNI"):
            remove_rules_for_ports()
        if f"directory {CNI}" not in self._before.present:
            remove_cni_cache()
        if "directory /run/edgecore" not in self._before.present:
            remove_top()

    def _is_clean(self) -> bool:
        """Remove what is shared, and look: again and again, as a run of a test that tests runs may still be ending."""
        self._remove_shared()
        found = [each for each in remains.remains(directories.mark()) if each != f"file {self._directory}"]
        now = remains.machine(REPOSITORY)
        if remains.others_run(directories.mark()):
            now = now._replace(present=self._before.present)
        changes = remains.changes(self._before, now)
        self._left = found + changes if _IS_ALONE else found
        self._changed = [] if _IS_ALONE else changes
        return not self._left

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what is left."""
        if self._left:
            terminalreporter.section("left on the machine", red=True)
            terminalreporter.write_line("\n".join(self._left))
        if self._changed:
            terminalreporter.section("changed on the machine, by this run or by another program", yellow=True)
            terminalreporter.write_line("\n".join(self._changed))
        if self._directory.exists():
            terminalreporter.write_line(f"the files of this run are in {self._directory}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin the run before pytest chooses its own directory for temporary files."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(WholeRun(config), "whole-run")
    reporting.register(config)
    sharing.register(config)
    _watch_modules()
    set_up_malloc()
    gc.disable()  # all that is imported and collected stays: looking through it again and again finds nothing


def pytest_sessionstart(session: pytest.Session) -> None:
    """The profile is known by now: `--hypothesis-profile` has been read."""
    profiles.fix_examples()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what the tests of a process share while pytest-xdist waits for it: ten seconds later it would be killed."""
    if hasattr(session.config, "workerinput"):
        directories.AT_END.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare the garbage collector what was imported and collected: it stays until the end.

    With Python's thresholds a tenth of the processor time of the tests would be the collector's. To look for the 30 MB
    of garbage that pytest's collection leaves would take an eighth of the collection's time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make test` leaves out by the files' names."""
    if extended.is_extended(item.nodeid):
        item.add_marker(extended.MARK)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what is shared by several files in one go, which it ends after the last; else the order stays as drawn."""
    items.sort(key=lambda item: sharing.turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return three test processes for two processors: a third of their time they wait."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return (3 * len(os.sched_getaffinity(0)) + 1) // 2
