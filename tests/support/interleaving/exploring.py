"""Runs a scenario in many orders."""

import dis
import functools
import queue
import random
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import pytest

import beehive.runtime
from tests.support.collector import without_collections
from tests.support.interleaving.primitives import REPLACED
from tests.support.interleaving.scheduling import Interleaving, ScheduledThread

_SWITCHES: Final = frozenset(
    {
        "LOAD_ATTR", "STORE_ATTR", "DELETE_ATTR", "BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "CONTAINS_OP",
        "CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP",
    }
)  # fmt: skip
"""Instructions that a switch of threads may precede: they see or change shared state."""

_FEW: Final = 60
_MORE: Final = 2000
"""Orders with two or three interruptions."""

SEEDS: Final = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6)))
"""Of `explore`, for `pytest.mark.parametrize`: further ones than 0 are for `make slow`."""

Scenario = Callable[[Interleaving], None]


def explore(scenario: Scenario, *watched: ModuleType, single: int = 300, seed: int = 0, stalls: bool = False) -> int:
    """Run a scenario in many orders; return how many.

    Args:
        scenario: makes the objects, runs functions with `Interleaving.run`, and asserts what must hold in any order.
        watched: modules whose functions can be interrupted.
        single: largest number of orders with one interruption; if there are more, they are drawn.
        seed: of what is drawn. With 0, for `make test`, few orders have two or three interruptions; with others many.
        stalls: whether a scenario may wait for a time-out while nothing else can happen.

    Raises:
        DeadlockError: the threads wait for each other.
        StalledError: nothing happened until a time-out.
        BaseException: what the scenario has raised, with the order in a note.
    """
    drawn = random.Random(seed)  # noqa: S311 - reproducible on purpose
    with _replaced(watched):
        files = frozenset(str(module.__file__) for module in watched)
        alternatives = _run(scenario, files, {}, stalls=stalls)
        singles = [{step: other} for step, number in enumerate(alternatives) for other in range(number)]
        orders: list[dict[int, int]] = drawn.sample(singles, min(single, len(singles)))
        for _ in range((_MORE if seed else _FEW) if singles else 0):
            steps = drawn.sample(range(1, len(alternatives)), min(drawn.choice((2, 3)), len(alternatives) - 1))
            orders.append({step: drawn.randrange(8) for step in steps})
        for choices in orders:
            _run(scenario, files, choices, stalls=stalls)
    return 1 + len(orders)


def _run(scenario: Scenario, files: frozenset[str], choices: Mapping[int, int], *, stalls: bool) -> Sequence[int]:
    interleaving = _Traced(files, choices, stalls=stalls)
    try:
        scenario(interleaving)
    except BaseException as error:
        error.add_note("\n".join(["interrupted:", *interleaving.interruptions, f"choices: {dict(choices)}"]))
        raise
    return interleaving.alternatives


class _Traced(Interleaving):
    """A run whose threads can be interrupted within the functions of some files."""

    def __init__(self, files: frozenset[str], choices: Mapping[int, int], *, stalls: bool) -> None:
        super().__init__(choices, stalls=stalls)
        self._files = files

    def spawn(self, function: Callable[[], object], name: str) -> ScheduledThread:
        """Add a thread."""

        def traced() -> None:
            sys.settrace(self._called)
            try:
                function()
            finally:
                sys.settrace(None)

        return super().spawn(traced, name)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace = self._executed  # from Python 3.12 on, opcodes are traced only if it is set before
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._executed

    def _executed(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode" and frame.f_lasti in _switches(frame.f_code):
            self.step(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        return self._executed


@functools.cache
def _switches(code: CodeType) -> frozenset[int]:
    return frozenset(each.offset for each in dis.get_instructions(code) if each.opname in _SWITCHES)


@contextmanager
def _replaced(watched: Sequence[ModuleType]) -> Iterator[None]:
    """Give the modules of a scenario its own locks, queues and threads; no garbage is collected at a chance moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "_allocate_lock", REPLACED[threading.Lock])
        for module in (threading, queue, select, beehive.runtime, *watched):
            for name, value in list(vars(module).items()):
                if name.startswith("_Py") or not callable(value):
                    continue
                new = next((new for old, new in REPLACED.items() if old is value), None)
                if new is not None:
                    patch.setattr(module, name, new)
        with without_collections():
            yield
