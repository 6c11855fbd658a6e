"""Runs tests on a mutant, in a child of a process that has loaded the libraries and no module of the product.

The mutant is made when the child imports the module. No file is changed, and processes that the tests start run the
unchanged product.
"""

import ast
import ctypes
import importlib
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutants.operators import Mutant, mutated
from tests.mutants.planted import PlantedBug
from tests.mutants.reach import Notes, NotingLoader, Reach, read
from tests.mutants.selection import ROOT, modules

_LOADED = ("msgspec", "pykka", "greenlet", "websockets", "sqlalchemy", "yaml", "cryptography.x509")
_MEMORY = 4 << 30
_TIME_FACTOR = 4.0
"""A mutant's tests may take this many times as long as without it."""
_BASELINE = 1800.0
"""Seconds that a run without a mutant may take."""
_START = 20.0
"""Seconds for the start of pytest and the imports, on a busy machine."""
_FAILED, _BROKEN = 1, 3
_DIE_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of prctl(2)."""


Change = Callable[[str], str | ast.Module]
"""Returns a module's source with a change."""


class MutantResult(StrEnum):
    """Result of a mutant's tests."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNREACHED = "survived (no test runs it)"
    TIMED_OUT = "killed (time-out)"
    BROKEN = "not run"
    """pytest could not run the tests, with the mutant or without: counts as survived."""


class Runner:
    """Runs each mutant with the tests of its selection that reach its statement."""

    def __init__(self) -> None:
        for name in _LOADED:
            importlib.import_module(name)
        self._reach: dict[tuple[str, ...], Reach] = {}

    def run(self, mutant: Mutant, selected: Sequence[str]) -> MutantResult:
        """Run tests until the first fails."""
        reach = self.reach(selected)
        tests = reach.of((mutant.path, mutant.line))
        if not tests:
            return MutantResult.UNREACHED
        code = _child(lambda: _run_mutant(mutant, tests), _START + _TIME_FACTOR * reach.time(tests))
        if code is None:
            return MutantResult.TIMED_OUT
        if code == _BROKEN and _child(lambda: _run_alone(tests), _BASELINE) != 0:
            return MutantResult.BROKEN
        return MutantResult.SURVIVED if code == 0 else MutantResult.KILLED

    def run_planted(self, planted: PlantedBug) -> MutantResult:
        """Run the test of a planted bug."""
        if _child(lambda: _run_alone([planted.test]), _BASELINE) != 0:
            return MutantResult.BROKEN
        code = _child(lambda: _run_changed(planted), _BASELINE)
        return MutantResult.SURVIVED if code == 0 else MutantResult.KILLED

    def reach(self, selected: Sequence[str]) -> Reach:
        """Return the reach of a selection of tests; the first call runs them without a mutant.

        Raises:
            SystemExit: a test fails without a mutant.
        """
        key = tuple(selected)
        if key not in self._reach:
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "reach.json"
                if _child(lambda: _run_noting(selected, file), _BASELINE) != 0:
                    raise SystemExit(f"the tests fail without a mutant: {' '.join(selected)}")
                self._reach[key] = read(file)
        return self._reach[key]


def _child(task: Callable[[], int], limit: float) -> int | None:
    """Run `task` in a child and return its exit status, or None when it takes longer than `limit` seconds."""
    child = os.fork()
    if child == 0:
        _be_child(task)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _be_child(task: Callable[[], int]) -> None:
    code = _FAILED
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        code = task()
    finally:
        os._exit(code)


class _Failures:
    """Pytest plugin that notes whether a test failed or a module could not be imported."""

    def __init__(self) -> None:
        self.any = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.any = self.any or report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any = self.any or report.failed


def _run_mutant(mutant: Mutant, tests: Sequence[str]) -> int:
    return _run_with(mutant.path, lambda source: mutated(source, mutant.number), tests)


def _run_changed(planted: PlantedBug) -> int:
    return _run_with(planted.path, planted.planted_in, [planted.test])


def _run_with(path: str, change: Change, tests: Sequence[str]) -> int:
    sys.meta_path.insert(0, _Finder({path: lambda name, file: _ChangedLoader(name, file, change)}))
    failures = _Failures()
    code = _pytest(tests, [failures])
    return _FAILED if failures.any else _BROKEN if code else 0


def _run_alone(tests: Sequence[str]) -> int:
    """Run the tests without the mutant: if pytest can, the mutant broke a module that all of them import."""
    return _pytest(tests, [])


def _run_noting(tests: Sequence[str], file: Path) -> int:
    notes = Notes()
    sys.meta_path.insert(0, _Finder({path: _noting(path, notes) for path in modules("")}))
    code = _pytest(tests, [notes])
    notes.write(file)
    return code


def _pytest(tests: Sequence[str], plugins: list[object]) -> int:
    options = ["-n", "0", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "--timeout", "120"]
    return int(pytest.main([*options, *tests], plugins=plugins))


Made = Callable[[str, str], Loader]
"""Makes the loader for a module's name and file."""


def _noting(path: str, notes: Notes) -> Made:
    return lambda name, file: NotingLoader(name, file, path, notes)


class _Finder(MetaPathFinder):
    def __init__(self, made: dict[str, Made]) -> None:
        self._made = {path.removesuffix(".py").replace("/", "."): (path, make) for path, make in made.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the modules that are changed; leave all others to the other finders."""
        if fullname not in self._made:
            return None
        short, make = self._made[fullname]
        file = ROOT / short
        return spec_from_file_location(fullname, file, loader=make(fullname, str(file)))


class _ChangedLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        """Compile the changed source: the cached code is the product's."""
        return compile(self._change(Path(self.path).read_text()), self.get_filename(fullname), "exec")
