"""Which tests reach a statement, and the result of a mutant that no test reaches or notices."""

import ast
import functools
import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.mutants import selection
from tests.mutants.children import run_child
from tests.mutants.reach import Notes, Reach, noting
from tests.mutants.runner import MutantResult

PRODUCT = '''
"""A module."""


def larger(a: int, b: int) -> bool:
    """Whether it is."""
    if a > b:
        return True
    return False


class Limits:
    lowest: int = 0

    def lower(self, a: int) -> bool:
        return a < self.lowest


def unused(a: int) -> int:
    while a:
        a -= 1
    return a + 1
'''
TESTS = """
import pytest
from product_of_mutants import Limits, larger


@pytest.mark.parametrize("a", [2])
def test_larger(a: int) -> None:
    assert larger(a, 1)


def test_smaller() -> None:
    assert not larger(1, 2)


def test_lower() -> None:
    assert not Limits().lower(0)
"""


def test_each_statement_notes_its_run() -> None:
    """With its line; docstrings stay where they are."""
    lines: list[int] = []
    names: dict[str, object] = {"__reached__": lines.append}
    exec(compile(noting(PRODUCT), "product", "exec"), names)  # noqa: S102 - the text above
    larger = names["larger"]
    assert callable(larger)
    lines.clear()  # the body of a class runs when it is defined
    assert larger(2, 1) is True
    assert lines == [7, 8]
    assert larger.__doc__ == "Whether it is."
    assert ast.unparse(noting("x = 1")) == "x = 1"


def test_statements_of_an_import_concern_all_tests_and_the_quickest_is_first() -> None:
    """A default in a class is used by every test that makes an instance."""
    reach = Reach({"slow": 2.0, "quick": 0.1}, {("m.py", 3): ("slow",)}, frozenset({("m.py", 1)}))
    assert reach.of(("m.py", 1)) == ["quick", "slow"]
    assert reach.of(("m.py", 3)) == ["slow"]
    assert reach.of(("m.py", 9)) == []
    assert reach.time(["slow", "quick"]) == 2.1


def test_each_test_runs_what_a_cache_has_kept() -> None:
    """Else a statement that only the first test runs, such as the rendering of SQL, had only that one."""
    notes, calls = Notes(), list[int]()
    cached = functools.cache(lambda: calls.append(len(calls)))
    notes.add_caches([len, cached])
    for name in ("one", "another"):
        running = notes.pytest_runtest_protocol(cast("pytest.Item", SimpleNamespace(nodeid=name)))
        next(running)
        cached()
        assert next(running, None) is None
    assert calls == [0, 1]


def test_the_files_of_tests_take_turns() -> None:
    seconds = {"a.py::1": 0.1, "a.py::2": 0.2, "a.py::3": 0.3, "b.py::1": 0.2, "b.py::2": 0.5}
    reach = Reach(seconds, {("m.py", 1): tuple(seconds)}, frozenset())
    assert reach.of(("m.py", 1)) == ["a.py::1", "b.py::1", "a.py::2", "a.py::3", "b.py::2"]


@pytest.mark.parametrize(("seconds", "number"), [(0.0, 1), (1.5, 1), (2.0, 2), (9.0, 3)])
def test_the_quickest_tests_are_those_that_take_a_time_together(seconds: float, number: int) -> None:
    """And one at least: else a statement that only slow tests run would have none."""
    reach = Reach({"a": 1.0, "b": 1.0, "c": 3.0}, {}, frozenset())
    assert reach.quick(["a", "b", "c"], seconds) == ["a", "b", "c"][:number]


JUDGE = """
import json, math, sys
from pathlib import Path

from tests.mutants import runner
from tests.mutants.collected import BaselineError
from tests.mutants.operators import mutants

runner.ROOT = Path.cwd()
runner.modules = lambda _: ["product_of_mutants.py"]
judge = runner.Runner(float(sys.argv[1]), processes=sys.argv[2] == "processes", tiers=sys.argv[2] == "tiers")
found = []
tests = [*(runner.NOT_SLOW if sys.argv[2] == "tiers" else ()), "test_it.py"]
try:
    for one in mutants("product_of_mutants.py", Path("product_of_mutants.py").read_text()):
        verdict = judge.run(one, tests)
        found.append((one.function, one.after, verdict.result.name, verdict.test, verdict.tier))
except BaselineError as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps(found))
finally:
    judge.close()
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """The directory of a module with its tests."""
    (tmp_path / "product_of_mutants.py").write_text(PRODUCT)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def judged(product: Path, quick: float, reach: str = "own") -> Any:
    """Return what the module's mutants came to, from a process that has no threads: this one may have some."""
    environment = {**os.environ, "PYTHONPATH": f"{product}:{selection.ROOT}"}
    command = [sys.executable, "-c", JUDGE, str(quick), reach]
    done = subprocess.run(command, cwd=product, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quick", "survived", "of_attribute"),
    [
        (math.inf, MutantResult.SURVIVED, {MutantResult.KILLED}),
        (0.0, MutantResult.SURVIVED_QUICK, {MutantResult.KILLED, MutantResult.SURVIVED_QUICK}),
    ],
)
def test_a_mutant_is_killed_survives_or_is_run_by_no_test(
    product: Path, quick: float, survived: MutantResult, of_attribute: set[MutantResult]
) -> None:
    """And the file stays as it is."""
    found = {(function, after): MutantResult[result] for function, after, result, *_ in judged(product, quick)}
    assert found[("larger", "if a >= b:")] is survived
    assert found[("larger", "return False")] is MutantResult.KILLED
    assert found[("Limits", "lowest: int = 1")] in of_attribute
    assert found[("Limits.lower", "return a <= self.lowest")] is MutantResult.KILLED
    assert {result for (function, _), result in found.items() if function == "unused"} == {MutantResult.UNREACHED}
    assert (product / "product_of_mutants.py").read_text() == PRODUCT


def test_tests_that_fail_without_a_mutant_end_the_run(product: Path) -> None:
    """Else everything would count as killed."""
    (product / "test_it.py").write_text("def test_it():\n    assert False\n")
    assert judged(product, math.inf) == "the tests fail without a mutant: test_it.py::test_it"


LATE = """

@pytest.mark.extended
def test_equal() -> None:
    assert not larger(1, 1)


@pytest.mark.slow
def test_it_fails() -> None:
    assert False
"""


@pytest.mark.slow
def test_extended_tests_kill_what_no_test_of_make_test_kills(product: Path) -> None:
    """And slow ones are not run: those would fail without a mutant, too."""
    (product / "test_it.py").write_text(TESTS + LATE)
    (product / "pytest.ini").write_text("[pytest]\nmarkers =\n    extended: late\n    slow: never\n")
    found = {(function, after): verdict for function, after, *verdict in judged(product, math.inf, "tiers")}
    assert found[("larger", "if a >= b:")] == ["KILLED", "test_it.py::test_equal", "make extended"]
    assert found[("larger", "return False")] == ["KILLED", "test_it.py::test_larger[2]", "make test"]
    assert found[("unused", "return a - 1")] == ["UNREACHED", "", None]


OF_PROCESSES = """
import subprocess
import sys


def test_same() -> None:
    program = "import sys; sys.path.append('.'); from product_of_mutants import same; assert same(1) == 1"
    subprocess.run([sys.executable, "-I", "-c", program], check=True)


def test_it_fails() -> None:
    assert False


def test_nothing() -> None:
    pass
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process mounts of its own")
def test_mutants_are_run_by_processes_and_a_test_that_fails_is_left_out(product: Path) -> None:
    (product / "product_of_mutants.py").write_text("def same(a):\n    return a\n\ndef other(a):\n    return a\n")
    (product / "test_it.py").write_text(OF_PROCESSES)
    found = judged(product, math.inf, "processes")
    killed = ["same", "return None", "KILLED", "test_it.py::test_same", None]
    assert found == [killed, ["other", "return None", "UNREACHED", "", None]]


def test_a_process_with_threads_starts_no_child() -> None:
    """The child would wait for a lock that a thread held when the process was copied."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="a process with threads cannot run mutants"):
            run_child(lambda: 0, 1)
    finally:
        done.set()
        thread.join()


def test_every_selection_names_tests_and_modules_that_exist() -> None:
    """A file that was renamed must not be left out in silence."""
    modules = [each for each in selection.modules("") if (selection.ROOT / each).is_file()]
    for prefix, tests in selection.TESTS.items():
        assert any(each.startswith(prefix) for each in modules), prefix
        assert all((selection.ROOT / test.partition("::")[0]).exists() for test in tests), prefix
    assert all((selection.ROOT / test.partition("::")[0]).exists() for test in selection.SIMULATION)
