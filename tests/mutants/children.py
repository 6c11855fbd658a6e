"""Runs pytest in child processes that end with their parent."""

import ctypes
import os
import resource
import select
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

FAILED, BROKEN = 1, 3
_MEMORY = 4 << 30
_LONG = ("test_planted", "test_million_entries")
"""Modules of tests."""
_SECONDS = "600"
"""Time-out of one test: pytest's ends the whole run, and a busy machine takes minutes for what takes seconds."""
DIE_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of prctl(2)."""


def run_child(task: Callable[[], int], limit: float) -> int | None:
    """Run `task` in a child and return its exit status, or None when it takes longer than `limit` seconds."""
    child = start_child(task)
    descriptor = os.pidfd_open(child)
    try:
        has_ended = bool(select.select([descriptor], [], [], limit)[0])
    finally:
        os.close(descriptor)
    if has_ended:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end_child(child)
    return None


def start_child(task: Callable[[], int]) -> int:
    """Run `task` in a child, and return its number. What it prints is lost; its result is its exit status.

    Raises:
        RuntimeError: this process has threads, and one of them may hold a lock that the child would wait for.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("a process with threads cannot run mutants: run them in a process of their own")
    child = os.fork()
    if child == 0:
        _be_child(task)
    return child


def end_child(child: int) -> None:
    """Kill a child and the processes of its session."""
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _be_child(task: Callable[[], int]) -> None:
    code = FAILED
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        code = task()
    finally:
        os._exit(code)


class Failures:
    """Pytest plugin that notes whether a test failed or a module could not be imported.

    Args:
        file: gets the id of what failed first, or of the test that runs.
    """

    def __init__(self, file: Path) -> None:
        self.any = False
        self._file = file

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.any:
            self._file.write_text(report.nodeid)
        self.any = self.any or report.failed

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self.any:
            self._file.write_text(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any = self.any or report.failed


def run_pytest(tests: Sequence[str], plugins: list[object]) -> int:
    """Run tests in this process until the first fails, and return pytest's exit status. Left out are those that take
    longer than a mutant's tests may: of planted bugs, which judge other tests, and of a million files.
    """
    options = ["-n", "0", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "--timeout", _SECONDS]
    options += [f"--ignore-glob=*/{name}.py" for name in _LONG]
    return int(pytest.main([*options, *tests], plugins=plugins))
