"""Which functions of a module a change concerns."""

import ast
import multiprocessing
import threading
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, cast

import pytest

from tests.mutants import collected as collected_tests
from tests.mutants.collected import (
    _CANNOT,
    BaselineError,
    CannotChangeError,
    CollectedTests,
    _Request,
    _Service,
    changed_functions,
)

MODULE = """
LIMIT = 3

def first(a):
    return a + 1

class Pod:
    grace = 30

    def second(self):
        def inner():
            return self.grace
        return inner()

    def third(self, a=1):
        return a
"""


def test_a_changed_method_is_found_with_its_new_code() -> None:
    """Only it: the others keep what decorators have put around them."""
    assert _found("return a\n", "return None\n") == {("m.py", "Pod.third", 15)}


def test_of_nested_functions_the_outermost_is_found() -> None:
    """Its code makes the inner function when it runs."""
    assert _found("return self.grace", "return -self.grace") == {("m.py", "Pod.second", 10)}


def test_a_function_has_its_new_code() -> None:
    """As replaced in an existing function."""
    names: dict[str, object] = {}
    exec(_code(MODULE), names)  # noqa: S102 - the text above
    first = names["first"]
    assert callable(first)
    assert first(1) == 2
    ((_, code),) = changed_functions(_code(MODULE), _code(MODULE.replace("a + 1", "a - 1")))
    first.__code__ = code  # type: ignore[attr-defined]
    assert first(1) == 0


@pytest.mark.parametrize(("old", "new"), [("LIMIT = 3", "LIMIT = 4"), ("grace = 30", "grace = 31"), ("a=1", "a=2")])
def test_what_an_import_has_computed_cannot_be_changed(old: str, new: str) -> None:
    """Constants, attributes of classes and defaults exist already."""
    with pytest.raises(CannotChangeError):
        _found(old, new)


def test_an_equal_module_changes_nothing() -> None:
    """So that nobody mistakes it for a mutant that survives."""
    assert _found("LIMIT = 3", "LIMIT = 3") == set()


def _found(old: str, new: str) -> set[tuple[str, str, int]]:
    return {place for place, _ in changed_functions(_code(MODULE), _code(MODULE.replace(old, new)))}


def _code(source: str) -> CodeType:
    code: CodeType = compile(ast.parse(source), "m.py", "exec")
    return code


def test_a_process_that_has_ended_has_no_results() -> None:
    """Neither of the request that it does not read, nor of the one that it does not answer: the area is left out."""
    for request in range(2):
        ours, theirs = multiprocessing.Pipe()
        collected = object.__new__(CollectedTests)
        collected._connection = ours
        with ours:
            if request:
                threading.Thread(target=lambda theirs=theirs: (theirs.recv(), theirs.close())).start()
            else:
                theirs.close()
            with pytest.raises(BaselineError, match="has ended"):
                collected.run(Path("m.py"), 0, [], 1.0, Path("note"))


def test_a_process_with_threads_makes_no_change_in_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """They could not fork it safely: each mutant's tests are imported anew."""
    ours, theirs = multiprocessing.Pipe()
    monkeypatch.setattr(collected_tests, "_functions", dict)
    with ours:
        ours.send(_Request("m.py", 0, [], 1.0, "note"))

        def run(*_: object) -> None:
            ours.close()
            raise RuntimeError("a process with threads")

        monkeypatch.setattr(collected_tests, "run_child", run)
        sent: list[object] = []
        service = _Service(cast("Any", SimpleNamespace(recv=theirs.recv, send=sent.append)))
        service.pytest_runtestloop(cast("Any", SimpleNamespace(items=[], testsfailed=0)))
        theirs.close()
        assert sent == [True, _CANNOT]
