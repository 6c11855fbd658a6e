"""Runs tests on a mutant: in a child of this process, that has loaded what all tests need, and nothing of the product.

The mutant is made when the child imports the module; no file is changed, and children of the tests have the product as
it is.
"""

import ast
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutants.operators import Mutant, mutated
from tests.mutants.selection import ROOT

_LOADED = ("msgspec", "pykka", "greenlet", "websockets", "sqlalchemy", "yaml", "cryptography.x509")
_MEMORY = 4 << 30
_PATIENCE = 3.0
"""Times as long as the tests take without a mutant."""


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMED_OUT = "killed (time-out)"


class Runner:
    """See the module's docstring."""

    def __init__(self) -> None:
        for name in _LOADED:
            importlib.import_module(name)
        self._seconds: dict[tuple[str, ...], float] = {}

    def run(self, mutant: Mutant, tests: Sequence[str]) -> Verdict:
        """Run tests until the first fails."""
        code = self._child(mutant, tests, self._limit(tests))
        return Verdict.TIMED_OUT if code is None else Verdict.SURVIVED if code == 0 else Verdict.KILLED

    def _limit(self, tests: Sequence[str]) -> float:
        """Seconds; measured by a run without a mutant, which must pass."""
        key = tuple(tests)
        if key not in self._seconds:
            begin = time.monotonic()
            if self._child(None, tests, 900.0) != 0:
                raise SystemExit(f"the tests fail without a mutant: {' '.join(tests)}")
            self._seconds[key] = time.monotonic() - begin
        return 10.0 + _PATIENCE * self._seconds[key]

    def _child(self, mutant: Mutant | None, tests: Sequence[str], limit: float) -> int | None:
        """The child's exit status; None when it took too long."""
        child = os.fork()
        if child == 0:
            _be_child(mutant, tests)
        end = time.monotonic() + limit
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None


def _be_child(mutant: Mutant | None, tests: Sequence[str]) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
    options = ["-n", "0", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "--timeout", "120"]
    code = 1
    try:
        code = int(pytest.main([*options, *tests]))
    finally:
        os._exit(code)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = mutant.path.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The mutant's own module is loaded here, all others as ever."""
        if fullname != self._name:
            return None
        file = ROOT / self._mutant.path
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file), self._mutant.number))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, number: int) -> None:
        super().__init__(name, path)
        self._number = number

    def get_code(self, fullname: str) -> CodeType:
        """Made anew: what is cached is the product."""
        tree: ast.Module = mutated(Path(self.path).read_text(), self._number)
        return compile(tree, self.get_filename(fullname), "exec")
