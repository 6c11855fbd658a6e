"""A process that has collected tests, and runs some of them in its children, where functions have other code."""

import ast
import gc
import inspect
import multiprocessing
from collections import defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

from tests.mutants.children import FAILED, Failures, end_child, run_child, run_pytest, start_child
from tests.mutants.operators import mutated

Place = tuple[str, str, int]
"""File, qualified name and first line of a function."""
_CANNOT = 4
"""Exit status of a child that cannot make the change."""
_ENDED = "the process that has collected the tests has ended"


class BaselineError(Exception):
    """The tests fail without a mutant: every mutant would count as killed."""


class CannotChangeError(Exception):
    """A change concerns more than functions that exist: the module must be imported with it."""


class CollectedTests:
    """Tests that another process has imported and collected: each of its children begins with them.

    Args:
        selected: the tests, as arguments of pytest.
        limit: seconds that the collection may take.

    Raises:
        BaselineError: the tests cannot be collected.
    """

    def __init__(self, selected: Sequence[str], limit: float) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        self._process = start_child(lambda: run_pytest(selected, [_Service(theirs)]))
        theirs.close()
        if not self._connection.poll(limit) or not self._received():
            self.close()
            raise BaselineError(f"the tests cannot be collected: {' '.join(selected)}")

    def run(self, file: Path, number: int, tests: Sequence[str], limit: float, note: Path) -> int | None:
        """Run tests with a mutant of a module until the first fails.

        Args:
            file: the module.
            number: the mutant's index.
            tests: ids of tests, in their order.
            limit: seconds that they may take.
            note: file for the id of the test that fails.

        Returns:
            The exit status: 0 when all passed; None when they took longer.

        Raises:
            CannotChangeError: the mutant concerns more than functions that exist.
            BaselineError: the process has ended.
        """
        try:
            self._connection.send(_Request(str(file), number, tests, limit, str(note)))
        except OSError as error:
            raise BaselineError(_ENDED) from error
        code = self._received()
        if code == _CANNOT:
            raise CannotChangeError
        return code

    def _received(self) -> int | None:
        try:
            received: int | None = self._connection.recv()
        except (EOFError, OSError) as error:
            raise BaselineError(_ENDED) from error
        return received

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        end_child(self._process)


class _Request(NamedTuple):
    file: str
    number: int
    tests: Sequence[str]
    limit: float
    note: str


class _Service:
    """Pytest plugin that carries out requests in place of running all tests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Carry out requests until the other end is closed."""
        items = {item.nodeid: item for item in session.items}
        functions = _functions()
        self._connection.send(not session.testsfailed)
        while True:
            try:
                request: _Request = self._connection.recv()
            except EOFError:
                return True
            chosen = [items[test] for test in request.tests]
            task = _Task(request, functions, session, chosen)
            try:
                code = run_child(task.carry_out, request.limit)
            except RuntimeError:  # it has threads, which the import of a test has begun
                code = _CANNOT
            self._connection.send(code)


class _Task(NamedTuple):
    request: _Request
    functions: dict[Place, list[FunctionType]]
    session: pytest.Session
    items: list[pytest.Item]

    def carry_out(self) -> int:
        """Make the change in this process, run the tests, and return an exit status."""
        try:
            self._make_change()
        except (CannotChangeError, ValueError):  # ValueError: it has other free variables, such as `super()`'s
            return _CANNOT
        failures, config = Failures(Path(self.request.note)), self.session.config
        config.pluginmanager.register(failures)
        for item, following in zip(self.items, [*self.items[1:], None], strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failures.any:
                self.session._setupstate.teardown_exact(None)
                return FAILED
        return 0

    def _make_change(self) -> None:
        file, source = self.request.file, Path(self.request.file).read_text()
        before = compile(ast.parse(source), file, "exec")
        after = compile(mutated(source, self.request.number), file, "exec")
        for place, code in changed_functions(before, after):
            if place not in self.functions:
                raise CannotChangeError
            for function in self.functions[place]:
                function.__code__ = code


def _functions() -> dict[Place, list[FunctionType]]:
    found: dict[Place, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType:
            found[_place(each.__code__)].append(each)
    gc.freeze()
    return found


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def changed_functions(before: CodeType, after: CodeType) -> Iterator[tuple[Place, CodeType]]:
    """Yield the outermost functions of a module that have other code after a change, with that code.

    Raises:
        CannotChangeError: more than functions differs.
    """
    if before == after:
        return
    if before.co_flags & inspect.CO_OPTIMIZED:
        yield _place(before), after
        return
    if _own(before) != _own(after):
        raise CannotChangeError
    for one, other in zip(before.co_consts, after.co_consts, strict=True):
        if isinstance(one, CodeType):
            yield from changed_functions(one, other)


def _own(code: CodeType) -> CodeType:
    """Return the code of a module or class without its lines, and without that of the functions and classes in it."""
    constants = tuple(None if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=b"")
