"""Counts of calls and commits of a piece of work, the same on every machine and at any load."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from beehive.simulation import Simulation


class Counted:
    """What a piece of work costs.

    Args:
        numbers: by name, such as `calls`.
        functions: the calls of each function.
    """

    def __init__(self, numbers: Mapping[str, float] | None = None, functions: Counter[CodeType] | None = None) -> None:
        self.numbers: dict[str, float] = dict(numbers or {})
        self._functions: Counter[CodeType] = functions or Counter()
        self._share = 1

    def shared(self, share: int) -> "Counted":
        """Return the part of one among so many, in four digits."""
        part = Counted({name: float(f"{number / share:.4g}") for name, number in self.numbers.items()}, self._functions)
        part._share = share
        return part

    def lines(self) -> list[str]:
        """Return a line for each function, the most called first."""
        return [
            f"{number / self._share:8.2f}  {code.co_qualname}  {Path(code.co_filename).name}"
            for code, number in self._functions.most_common()
        ]


class Calls:
    """Counts the calls of Python functions of a simulation, by function, but not those of the simulation itself.

    Calls of C functions are not counted. Resumptions of a generator count as calls.

    Args:
        simulation: a new one: each greenlet is profiled on its own, from its beginning.
        named: functions whose calls are counted under names of their own, too.
    """

    def __init__(self, simulation: Simulation, **named: Callable[..., object]) -> None:
        self._named = {name: getattr(function, "__code__") for name, function in named.items()}  # noqa: B009
        self._functions: Counter[CodeType] = Counter()
        self._is_counting = False
        spawn = simulation._spawn

        def spawn_counted(function: Callable[[], None], name: str) -> None:
            def run() -> None:
                sys.setprofile(self._called)
                function()

            spawn(run, name)

        simulation._spawn = spawn_counted  # type: ignore[method-assign]

    @contextmanager
    def counted(self) -> Iterator[Counted]:
        """Count in the block; what it yields has the numbers after it."""
        self._functions.clear()
        counted = Counted()
        before = sys.getprofile()
        sys.setprofile(self._called)
        self._is_counting = True
        try:
            yield counted
        finally:
            self._is_counting = False
            sys.setprofile(before)
        functions = Counter({code: number for code, number in self._functions.items() if _counts(code)})
        counted.numbers |= {"calls": functions.total()} | {name: functions[code] for name, code in self._named.items()}
        counted._functions = functions

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing in the block: what others do meanwhile."""
        was, self._is_counting = self._is_counting, False
        try:
            yield
        finally:
            self._is_counting = was

    def _called(self, frame: FrameType, what: str, _: Any) -> None:
        if self._is_counting and what == "call":
            self._functions[frame.f_code] += 1


def _counts(code: CodeType) -> bool:
    """Return whether a function is neither of the simulation, nor of a double, nor of these counts."""
    name = code.co_filename
    is_other = any(part in name for part in ("/beehive/simulation/", "/doubles/", "/tests/"))
    return not is_other and not name.endswith("/random.py")
