"""Which tests reach which statement, from one run where each statement notes that it runs."""

import ast
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import _lru_cache_wrapper
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

import pytest

from tests.support import extended

_MARK = "__reached__"

_STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn")
"""Audit events."""

Location = tuple[str, int]
"""A module's path and a line."""


class Reach(NamedTuple):
    """Result of a run without a mutant."""

    seconds: dict[str, float]
    """Duration of each test, by its id."""
    tests: dict[Location, tuple[str, ...]]
    """Ids of the tests that run the statement at a location."""
    on_import: frozenset[Location]
    """Statements that a module's import runs, such as the bodies of classes."""
    failed: tuple[str, ...] = ()
    """Ids of tests and files of tests that failed, which say nothing of a mutant."""
    processes: frozenset[str] = frozenset()
    """Ids of the tests that start processes."""
    extended: frozenset[str] = frozenset()
    """Ids of the tests that `make test` leaves out."""

    def of(self, location: Location) -> list[str]:
        """Return the tests that may notice a change there: of each file the quickest first, and of all files for the
        same time, since the tests of one file often notice the same.
        """
        return self._in_turns(self.seconds if location in self.on_import else self.tests.get(location, ()))

    def of_module(self, path: str) -> list[str]:
        """Return the tests that run something of a module beyond its import, in the same order."""
        return self._in_turns({test for (module, _), tests in self.tests.items() if module == path for test in tests})

    def of_processes(self) -> list[str]:
        """Return the tests that start processes, in the same order: these may notice a change anywhere."""
        return self._in_turns(self.processes)

    def _in_turns(self, tests: Iterable[str]) -> list[str]:
        found = set(tests).difference(self.failed)
        ends, spent = dict[str, float](), dict[str, float]()
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            file = test.partition("::")[0]
            ends[test] = spent[file] = spent.get(file, 0.0) + self.seconds[test]
        return sorted(ends, key=lambda test: (ends[test], test))

    def quick(self, tests: list[str], seconds: float) -> list[str]:
        """Return the first of the tests: all that take so many seconds together without a mutant, and at least one."""
        ends = itertools.accumulate(self.seconds[test] for test in tests)
        return tests[: max(1, sum(end <= seconds for end in ends))]

    def time(self, tests: Sequence[str]) -> float:
        """Return the seconds that the tests take without a mutant."""
        return sum(self.seconds[test] for test in tests)


class Notes:
    """Pytest plugin that records each test's statements and duration, and whether it starts processes."""

    def __init__(self) -> None:
        self._started = False
        self._processes: list[str] = []
        self._extended: list[str] = []
        self._now: set[Location] = set()
        self._imported: set[Location] = set()
        self._tests: dict[Location, list[str]] = {}
        self._seconds: dict[str, float] = {}
        self._failed: list[str] = []
        self._clearing: list[Callable[[], None]] = []

    def add_caches(self, functions: Iterable[object]) -> None:
        """Clear the caches of those functions that have one before each test: else only the first test would run what
        they run.
        """
        self._clearing += [each.cache_clear for each in functions if isinstance(each, _lru_cache_wrapper)]

    def mark(self, path: str, line: int) -> None:
        """Note that a statement is about to run."""
        self._now.add((path, line))

    def _audit(self, event: str, _: object) -> None:
        self._started = self._started or event in _STARTS

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which tests `make test` leaves out, and begin to look for processes."""
        self._extended = [item.nodeid for item in session.items if item.get_closest_marker(extended.MARK) is not None]
        sys.addaudithook(self._audit)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record one test; statements before the first test belong to the import of modules."""
        if not self._seconds:
            self._imported = set(self._now)
        for clear in self._clearing:
            clear()
        self._now, begin = set(), time.monotonic()
        self._started = False
        yield
        self._seconds[item.nodeid] = time.monotonic() - begin
        if self._started:
            self._processes.append(item.nodeid)
        for location in self._now:
            self._tests.setdefault(location, []).append(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be collected."""
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self._failed.append(report.nodeid)

    def write(self, file: Path) -> None:
        """Write the record for `read` in another process."""
        tests = [[*location, found] for location, found in self._tests.items()]
        imported = [list(location) for location in self._imported]
        ids = {"failed": self._failed, "processes": self._processes, "extended": self._extended}
        file.write_text(json.dumps({"seconds": self._seconds, "tests": tests, "imported": imported, **ids}))


def read(file: Path) -> Reach:
    """Read a file that `Notes` wrote."""
    found = json.loads(file.read_text())
    tests = {(path, line): tuple(names) for path, line, names in found["tests"]}
    imported = frozenset((path, line) for path, line in found["imported"])
    groups = frozenset(found["processes"]), frozenset(found["extended"])
    return Reach(found["seconds"], tests, imported, tuple(found["failed"]), *groups)


class NotingLoader(SourceFileLoader):
    """Loads a module whose statements call `Notes.mark` when they run."""

    def __init__(self, fullname: str, file: str, path: str, notes: Notes) -> None:
        super().__init__(fullname, file)
        self._short = path
        self._notes = notes

    def exec_module(self, module: ModuleType) -> None:
        """Give the module the function that its statements call, and note its caches."""
        module.__dict__[_MARK] = lambda line: self._notes.mark(self._short, line)
        super().exec_module(module)
        self._notes.add_caches(vars(module).values())

    def get_code(self, fullname: str) -> CodeType:
        """Compile the noting module: the cached code is the product's."""
        return compile(noting(Path(self.path).read_text()), self.get_filename(fullname), "exec")


def noting(source: str) -> ast.Module:
    """Return the module's tree with a call before each statement of a function or class."""
    tree = ast.parse(source)
    for node in list(ast.walk(tree)):
        if node is tree or isinstance(node, ast.Lambda | ast.IfExp):
            continue
        _note_bodies(node, documented=isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef))
    return ast.fix_missing_locations(tree)


def _note_bodies(node: ast.AST, *, documented: bool) -> None:
    for part in ("body", "orelse", "finalbody"):
        body: list[ast.stmt] | None = getattr(node, part, None)
        if body:
            first = 1 if documented and part == "body" and _is_text(body[0]) else 0
            body[first:] = [each for statement in body[first:] for each in (_call(statement), statement)]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _call(statement: ast.stmt) -> ast.stmt:
    called = ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(statement.lineno)], [])
    return ast.copy_location(ast.Expr(called), statement)
