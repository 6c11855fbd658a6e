"""Runs tests on a mutant, in a child of a process that has loaded the libraries and no module of the product.

The mutant is made when the child imports the module. No file is changed, and processes that the tests start run the
unchanged product, unless they are asked, too: they see another file in the module's place.
"""

import ast
import contextlib
import importlib
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutants.changed_file import run_with_file
from tests.mutants.children import BROKEN, FAILED, Failures, run_child, run_pytest
from tests.mutants.collected import BaselineError, CannotChangeError, CollectedTests
from tests.mutants.operators import Mutant, mutated
from tests.mutants.planted import PlantedBug
from tests.mutants.reach import Notes, NotingLoader, Reach, read
from tests.mutants.selection import ROOT, modules

_LOADED = ("msgspec", "pykka", "greenlet", "websockets", "sqlalchemy", "yaml", "cryptography.x509")
_TIME_FACTOR = 4.0
"""A mutant's tests may take this many times as long as without it."""
_BASELINE = 1800.0
"""Seconds that a run without a mutant may take."""
_START = 20.0
"""Seconds for the start of pytest and the imports, on a busy machine."""
_PATIENCE = 8.0
"""Seconds that collected tests may take beyond that, on a busy machine."""
_ALL = "--maxfail=0"
"""Option of pytest: run the other tests, too, when one has failed."""

Change = Callable[[str], str | ast.Module]
"""Returns a module's source with a change."""


class MutantResult(StrEnum):
    """Result of a mutant's tests."""

    KILLED = "killed"
    SURVIVED = "survived"
    SURVIVED_QUICK = "survived the quickest tests"
    """Slower tests were left out."""
    UNREACHED = "survived (no test runs it)"
    TIMED_OUT = "killed (time-out)"
    BROKEN = "not run"
    """pytest could not run the tests, with the mutant or without: counts as survived."""


_ALIVE = (MutantResult.SURVIVED, MutantResult.SURVIVED_QUICK, MutantResult.UNREACHED)


class Runner:
    """Runs each mutant with the tests of its selection that reach its statement.

    It keeps the collected tests of one selection: mutants of one selection should come together.

    Args:
        quick: seconds of tests that are run with a mutant at most, the quickest first.
        processes: whether a mutant that lives is run once more, in the processes that the tests start, too.
    """

    def __init__(self, quick: float = math.inf, *, processes: bool = False) -> None:
        self._quick = quick
        self._processes = processes
        for name in _LOADED:
            importlib.import_module(name)
        self.failed = set[str]()
        """Tests that fail without a mutant, and are left out."""
        self._selected: Sequence[str] = ()
        self._reach: Reach | None = None
        self._reach_of_processes: Reach | None = None
        self._collected: CollectedTests | None = None

    def run(self, mutant: Mutant, selected: Sequence[str]) -> MutantResult:
        """Run tests until the first fails.

        Raises:
            BaselineError: all tests fail without a mutant.
        """
        reach = self.reach(selected)
        tests = reach.of((mutant.path, mutant.line))
        result = MutantResult.UNREACHED
        if tests:
            chosen = reach.quick(tests, self._quick)
            result = self._run(mutant, chosen, reach, selected)
            if result is MutantResult.SURVIVED and len(chosen) < len(tests):
                result = MutantResult.SURVIVED_QUICK
        if self._processes and result in _ALIVE and self._killed_in_processes(mutant, selected):
            return MutantResult.KILLED
        return result

    def _killed_in_processes(self, mutant: Mutant, selected: Sequence[str]) -> bool:
        """Run the tests where all processes see the mutant in the module's file."""
        file = ROOT / mutant.path
        text = ast.unparse(mutated(file.read_text(), mutant.number))
        if "tests.mutants" in text:
            return False  # not every process could import what leaves a context open
        if self._reach_of_processes is None:
            self._reach_of_processes = self._noted(selected, file)
        reach = self._reach_of_processes
        chosen = reach.quick(reach.of_processes(), self._quick)
        limit = _START + _TIME_FACTOR * reach.time(chosen)
        return bool(chosen) and run_with_file(file, text, lambda: _run_until_failed(chosen), limit) != 0

    def _run(self, mutant: Mutant, tests: Sequence[str], reach: Reach, selected: Sequence[str]) -> MutantResult:
        seconds = _TIME_FACTOR * reach.time(tests)
        if (mutant.path, mutant.line) not in reach.on_import:
            if self._collected is None:
                self._collected = CollectedTests(selected, _BASELINE)
            with contextlib.suppress(CannotChangeError):
                return _result(self._collected.run(ROOT / mutant.path, mutant.number, tests, _PATIENCE + seconds))
        code = run_child(lambda: _run_mutant(mutant, tests), _START + seconds)
        if code == BROKEN and run_child(lambda: _run_alone(tests), _BASELINE) != 0:
            return MutantResult.BROKEN
        return _result(code)

    def run_planted(self, planted: PlantedBug) -> MutantResult:
        """Run the test of a planted bug. Raises ValueError, SyntaxError: it cannot be planted."""
        compile(planted.planted_in((ROOT / planted.path).read_text()), planted.path, "exec")
        if run_child(lambda: _run_alone([planted.test]), _BASELINE) != 0:
            return MutantResult.BROKEN
        code = run_child(lambda: _run_changed(planted), _BASELINE)
        return MutantResult.SURVIVED if code == 0 else MutantResult.KILLED

    def reach(self, selected: Sequence[str]) -> Reach:
        """Return the reach of a selection of tests that pass; the first call runs all of them without a mutant.

        Raises:
            BaselineError: all tests fail without a mutant.
        """
        if self._reach is None or self._selected != selected:
            self.close()
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "reach.json"
                run_child(lambda: _run_noting(selected, file), _BASELINE)
                reach = read(file) if file.exists() else None
            if reach is None or not reach.of_processes():
                failed = reach.failed if reach is not None else ()
                raise BaselineError(f"the tests fail without a mutant: {' '.join(failed or selected)}")
            self.failed.update(reach.failed)
            self._selected, self._reach = selected, reach
        return self._reach

    def _noted(self, selected: Sequence[str], file: Path) -> Reach:
        """Return which tests start processes and pass, in a child with mounts and processes of its own."""
        with tempfile.TemporaryDirectory() as directory:
            noted = Path(directory) / "reach.json"
            run_with_file(file, file.read_text(), lambda: _run_all(selected, noted), _BASELINE)
            if not noted.exists():
                raise BaselineError(f"the tests do not run in processes of their own: {' '.join(selected)}")
            return read(noted)

    def close(self) -> None:
        """End the process of the collected tests."""
        if self._collected is not None:
            self._collected.close()
        self._collected = self._reach = self._reach_of_processes = None


def _result(code: int | None) -> MutantResult:
    if code is None:
        return MutantResult.TIMED_OUT
    return MutantResult.SURVIVED if code == 0 else MutantResult.KILLED


def _run_mutant(mutant: Mutant, tests: Sequence[str]) -> int:
    return _run_with(mutant.path, lambda source: mutated(source, mutant.number), tests)


def _run_changed(planted: PlantedBug) -> int:
    return _run_with(planted.path, planted.planted_in, [planted.test])


def _run_until_failed(tests: Sequence[str]) -> int:
    failures = Failures()
    code = run_pytest(tests, [failures])
    return FAILED if failures.any or code else 0


def _run_all(tests: Sequence[str], file: Path) -> int:
    notes = Notes(of_processes=True)
    code = run_pytest([_ALL, *tests], [notes])
    notes.write(file)
    return code


def _run_with(path: str, change: Change, tests: Sequence[str]) -> int:
    sys.meta_path.insert(0, _Finder({path: lambda name, file: _ChangedLoader(name, file, change)}))
    failures = Failures()
    code = run_pytest(tests, [failures])
    return FAILED if failures.any else BROKEN if code else 0


def _run_alone(tests: Sequence[str]) -> int:
    """Run the tests without the mutant: if pytest can, the mutant broke a module that all of them import."""
    return run_pytest(tests, [])


def _run_noting(tests: Sequence[str], file: Path) -> int:
    notes = Notes()
    sys.meta_path.insert(0, _Finder({path: _noting(path, notes) for path in modules("")}))
    code = run_pytest([_ALL, *tests], [notes])
    notes.write(file)
    return code


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
