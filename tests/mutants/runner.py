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
from typing import NamedTuple

from tests.mutants.changed_file import run_with_file
from tests.mutants.children import BROKEN, FAILED, Failures, run_child, run_pytest
from tests.mutants.collected import BaselineError, CannotChangeError, CollectedTests
from tests.mutants.operators import Mutant, mutated
from tests.mutants.planted import PlantedBug, SimulatedBug
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


_ALIVE = (MutantResult.UNREACHED, MutantResult.SURVIVED, MutantResult.SURVIVED_QUICK)
"""In the order of what counts, when one tier's tests have had one result and the other's another."""


class Tier(StrEnum):
    """The command that runs a test."""

    TEST = "make test"
    EXTENDED = "make extended"


NOT_SLOW = ("-m", "not slow")
"""Arguments of pytest: the tests of both tiers."""


class Verdict(NamedTuple):
    """What a mutant's tests have said.

    Attributes:
        result: of all of them.
        test: id of the test that killed it.
        tier: the command that runs that test; None where tiers are not asked for.
    """

    result: MutantResult
    test: str = ""
    tier: Tier | None = None


class Runner:
    """Runs each mutant with the tests of its selection that reach its statement.

    It keeps the collected tests of one selection: mutants of one selection should come together.

    Args:
        quick: seconds of tests that are run with a mutant at most, the quickest first.
        processes: whether a mutant that lives is run once more, in the processes that the tests start, too.
        tiers: whether the tests of `make test` come first, and extended ones only if none of them kills the mutant.
    """

    def __init__(self, quick: float = math.inf, *, processes: bool = False, tiers: bool = False) -> None:
        self._quick = quick
        self._steps = (self._run_here, self._run_in_processes) if processes else (self._run_here,)
        self._tiers: tuple[Tier | None, ...] = tuple(Tier) if tiers else (None,)
        for name in _LOADED:
            importlib.import_module(name)
        self.failed = set[str]()
        """Tests that fail without a mutant, and are left out."""
        self._selected: Sequence[str] = ()
        self._reach: Reach | None = None
        self._reach_of_processes: Reach | None = None
        self._collected: CollectedTests | None = None

    def run(self, change: Mutant | SimulatedBug, selected: Sequence[str]) -> Verdict:
        """Run tests until the first fails.

        Raises:
            BaselineError: all tests fail without a mutant.
        """
        self.reach(selected)
        alive = MutantResult.UNREACHED
        for tier in self._tiers:
            for step in self._steps:
                with tempfile.TemporaryDirectory() as directory:
                    note = Path(directory) / "test"
                    result = step(change, tier, note)
                    if result not in _ALIVE:
                        return Verdict(result, note.read_text() if note.exists() else "", tier)
                alive = max(alive, result, key=_ALIVE.index)
        return Verdict(alive)

    def _run_here(self, change: Mutant | SimulatedBug, tier: Tier | None, note: Path) -> MutantResult:
        """Run the tests that reach the change in a child."""
        reach = self.reach(self._selected)
        if isinstance(change, Mutant):
            tests = _in_tier(reach.of((change.path, change.line)), reach, tier)
        else:
            tests = _in_tier(reach.of_module(change.path), reach, tier)
        if not tests:
            return MutantResult.UNREACHED
        chosen = reach.quick(tests, self._quick)
        result = self._run(change, chosen, reach, note)
        is_quick = result is MutantResult.SURVIVED and len(chosen) < len(tests)
        return MutantResult.SURVIVED_QUICK if is_quick else result

    def _run_in_processes(self, change: Mutant | SimulatedBug, tier: Tier | None, note: Path) -> MutantResult:
        """Run the tests that start processes where all of these see the mutant in the module's file; the result is that
        no test runs it if none fails, as it is not known what they run.
        """
        if not isinstance(change, Mutant):
            return MutantResult.UNREACHED
        file, reach = ROOT / change.path, self.reach(self._selected)
        text = ast.unparse(mutated(file.read_text(), change.number))
        # not every process could import what leaves a context open
        tests = [] if "tests.mutants" in text else reach.of_processes()
        if not _in_tier(tests, reach, tier):
            return MutantResult.UNREACHED
        if self._reach_of_processes is None:
            self._reach_of_processes = self._noted(tests, file)
        passing = self._reach_of_processes
        chosen = passing.quick(_in_tier(passing.of_processes(), passing, tier), self._quick)
        limit = _START + _TIME_FACTOR * passing.time(chosen)
        code = run_with_file(file, text, lambda: _run_until_failed(chosen, note), limit) if chosen else 0
        return MutantResult.KILLED if code != 0 else MutantResult.UNREACHED

    def _run(self, change: Mutant | SimulatedBug, tests: Sequence[str], reach: Reach, note: Path) -> MutantResult:
        seconds = _TIME_FACTOR * reach.time(tests)
        if not isinstance(change, Mutant):
            return _result(run_child(lambda: _run_simulated(change, tests, note), _START + seconds))
        if (change.path, change.line) not in reach.on_import:
            if self._collected is None:
                self._collected = CollectedTests(self._selected, _BASELINE)
            with contextlib.suppress(CannotChangeError):
                file = ROOT / change.path
                return _result(self._collected.run(file, change.number, tests, _PATIENCE + seconds, note))
        code = run_child(lambda: _run_mutant(change, tests, note), _START + seconds)
        if code == BROKEN and run_child(lambda: _run_alone(tests), _BASELINE) != 0:
            return MutantResult.BROKEN
        return _result(code)

    def run_planted(self, planted: PlantedBug) -> MutantResult:
        """Run the test of a planted bug. Raises ValueError, SyntaxError: it cannot be planted."""
        compile(planted.planted_in((ROOT / planted.path).read_text()), planted.path, "exec")
        if run_child(lambda: _run_alone([planted.test]), _BASELINE) != 0:
            return MutantResult.BROKEN
        with tempfile.TemporaryDirectory() as directory:
            note = Path(directory) / "test"
            code = run_child(lambda: _run_with(planted.path, planted.planted_in, [planted.test], note), _BASELINE)
        return MutantResult.SURVIVED if code == 0 else MutantResult.KILLED

    def tier_of(self, test: str) -> Tier | None:
        """Return the command that runs a test, or None if that is `make slow` alone."""
        try:
            reach = self.reach([*NOT_SLOW, test])
        except BaselineError:
            return None
        return Tier.EXTENDED if reach.extended else Tier.TEST

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
            if reach is None or not reach.seconds.keys() - set(reach.failed):
                failed = reach.failed if reach is not None else ()
                raise BaselineError(f"the tests fail without a mutant: {' '.join(failed or selected)}")
            self.failed.update(reach.failed)
            self._selected, self._reach = selected, reach
        return self._reach

    def _noted(self, tests: Sequence[str], file: Path) -> Reach:
        """Return which tests pass in a child with mounts and processes of its own."""
        with tempfile.TemporaryDirectory() as directory:
            noted = Path(directory) / "reach.json"
            run_with_file(file, file.read_text(), lambda: _run_all(tests, noted), _BASELINE)
            if not noted.exists():
                raise BaselineError(f"the tests do not run in processes of their own: {' '.join(tests)}")
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


def _in_tier(tests: Sequence[str], reach: Reach, tier: Tier | None) -> list[str]:
    return [test for test in tests if tier is None or (test in reach.extended) is (tier is Tier.EXTENDED)]


def _run_mutant(mutant: Mutant, tests: Sequence[str], note: Path) -> int:
    return _run_with(mutant.path, lambda source: mutated(source, mutant.number), tests, note)


def _run_simulated(bug: SimulatedBug, tests: Sequence[str], note: Path) -> int:
    with bug.planted():
        return _run_until_failed(tests, note)


def _run_until_failed(tests: Sequence[str], note: Path) -> int:
    failures = Failures(note)
    code = run_pytest(tests, [failures])
    return FAILED if failures.any or code else 0


def _run_all(tests: Sequence[str], file: Path) -> int:
    notes = Notes()
    code = run_pytest([_ALL, *tests], [notes])
    notes.write(file)
    return code


def _run_with(path: str, change: Change, tests: Sequence[str], note: Path) -> int:
    sys.meta_path.insert(0, _Finder({path: lambda name, file: _ChangedLoader(name, file, change)}))
    failures = Failures(note)
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
