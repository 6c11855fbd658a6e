"""Hundreds of malformed inputs of each kind: refused as documented or rightly accepted, within bounded time and memory.

`make slow` runs a thousand, and `make fuzz ARGS="--cases 1000000"` more.
"""

import ast
import gc
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest

from tests.fuzz.campaign import attempt, run, shrunk
from tests.fuzz.mutate import mutate, pieces
from tests.fuzz.target import Target, ViolationError
from tests.fuzz.targets import TARGETS

CASES = (250, pytest.param(1000, marks=pytest.mark.slow))
GROWTH = 96 * 1024
"""Bytes that repeated cases may leave behind: caches of the interpreter, no inputs."""


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name: str, cases: int) -> None:
    """Hundreds of cases of each target, or fewer of a slow one: no finding."""
    outcome = run(TARGETS[name], 0, range(round(cases * TARGETS[name].share) or 1))
    assert not outcome.findings, "\n".join(map(str, outcome.findings))


@pytest.mark.parametrize("name", TARGETS)
def test_a_good_input_comes_to_the_end_of_the_check(name: str) -> None:
    """A target that refuses all its inputs would find nothing."""
    target = TARGETS[name]
    code = target.check.__code__
    functions = [
        one for one in ast.walk(ast.parse(Path(code.co_filename).read_text())) if isinstance(one, ast.FunctionDef)
    ]
    end = max(next(_lines(one) for one in functions if one.lineno == code.co_firstlineno))
    reached = False

    def follow(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal reached
        reached = reached or (event == "line" and frame.f_lineno == end)
        return follow

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: follow if frame.f_code is code else None)
    try:
        for number, data in product(range(20), target.seeds()):
            if not reached:
                target.check(data, Random(number))
    finally:
        sys.settrace(before)
    assert reached, f"none comes to line {end} of {code.co_filename}"


def _lines(node: ast.AST) -> Iterator[int]:
    """Yield the first lines of statements below a node, but of failures and what handles them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and not isinstance(child, ast.Raise):
            yield child.lineno
        if not isinstance(child, ast.ExceptHandler | ast.FunctionDef):
            yield from _lines(child)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_kept(name: str) -> None:
    """The same cases a second time leave no memory behind."""
    target, numbers = TARGETS[name], range(round(15 * TARGETS[name].share) or 1)
    run(target, 7, numbers)
    tracemalloc.start()
    try:
        run(target, 7, numbers)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        run(target, 7, numbers)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < GROWTH
    finally:
        tracemalloc.stop()


def test_a_case_is_a_function_of_its_seed() -> None:
    """So that a finding can be seen again."""
    target, seeds = TARGETS["frames"], TARGETS["frames"].seeds()
    assert [target.case(3, n, seeds)[0] for n in range(50)] == [target.case(3, n, seeds)[0] for n in range(50)]
    assert target.case(3, 1, seeds)[0] != target.case(4, 1, seeds)[0]


def test_pieces_are_the_whole() -> None:
    """Cutting changes no byte."""
    for number in range(100):
        data = mutate(Random(number), [b"abc", b"0123456789" * 20])
        assert b"".join(pieces(Random(number), data)) == data


def test_a_planted_bug_is_found_and_made_small() -> None:
    """A parser that fails on one letter: it is found, and the input is no more than that letter."""

    def check(data: bytes, _: Random) -> None:
        if b"\xff" in data:
            raise ValueError("planted")

    target = Target("planted", lambda: [b"a good message of some length"], check)
    (finding,) = run(target, 1, range(2000)).findings
    assert finding.error == "ValueError: planted"
    assert finding.input == b"\xff"
    assert attempt(target, finding.input, Random(0)) is not None


def test_findings_are_distinguished_by_the_violated_rule() -> None:
    """Two violated invariants are two findings."""

    def check(data: bytes, _: Random) -> None:
        raise ViolationError("short" if len(data) < 5 else "long")

    target = Target("planted", lambda: [b"0123456789"], check)
    assert {finding.error for finding in run(target, 1, range(500)).findings} == {
        "ViolationError: short",
        "ViolationError: long",
    }
    assert len(shrunk(target, b"0123456789", attempt(target, b"0123456789", Random(0))[1])) == 5  # type: ignore[index]
