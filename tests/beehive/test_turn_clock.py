"""The clock of a module with a `TurnClock` stands still in each of its turns while the hive is observed."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from beehive import Message, Module, handles
from beehive.clock import Clock
from beehive.testing import Harness


class Reader(Module):
    """Reads the clock, works for some seconds, and reads it again: for messages, timers and calls."""

    name = "reader"
    has_turn_clock = True

    def __init__(self, works: float, seen: list[tuple[float, float]]) -> None:
        super().__init__()
        self._works = works
        self._seen = seen

    @handles()
    def read(self, _message: Message) -> None:
        """Read."""
        self._read()
        self.call_soon(self._read)
        self.after(5.0, self._read)

    def _read(self) -> None:
        before, began = self.clock.now(), self.clock.monotonic()
        virtual: Any = self.runtime.clock
        virtual._elapsed += self._works
        self._seen.append((round(self.clock.now() - before, 6), round(self.clock.monotonic() - began, 6)))


@pytest.mark.parametrize(
    ("works", "observed", "passed"),
    [
        pytest.param(0.9, True, (0.0, 0.0), id="observed"),
        pytest.param(0.9, False, (0.9, 0.9), id="not observed"),
        pytest.param(9.0, True, (0.0, 0.0), id="observed, on a machine that stood still"),
        pytest.param(11.0, True, (11.0, 11.0), id="a turn without end must not stop the clock"),
    ],
)
def test_time_in_a_turn(works: float, observed: bool, passed: tuple[float, float]) -> None:
    seen: list[tuple[float, float]] = []
    with Harness(taps=(mock.Mock(),) if observed else ()) as bee:
        bee.start(Reader, works, seen)
        for _ in range(2):
            bee.hive.send("reader", bee.message("any", "update"))
            bee.run_for(100.0)
    assert seen == [passed] * 6


class SetBack(Module):
    """Has its clock set back in a turn."""

    name = "set-back"
    has_turn_clock = True

    def __init__(self, set_back: Callable[[float], None], seen: list[float]) -> None:
        super().__init__()
        self._set_back = set_back
        self._seen = seen

    @handles()
    def read(self, _message: Message) -> None:
        """Read the clock before and after."""
        before = self.clock.now()
        self._set_back(-3600.0)
        self._seen.append(round(self.clock.now() - before, 6))


def test_a_clock_that_is_set_back_in_a_turn_has_the_new_time() -> None:
    """As NTP does at a start; what is stored would be of the future."""
    seen: list[float] = []
    with Harness(taps=(mock.Mock(),)) as bee:
        bee.start(SetBack, bee.clock.jump_wall, seen)
        bee.hive.send("set-back", bee.message("any", "update"))
        bee.run_for(10.0)
    assert seen == [-3600.0]


def test_it_is_the_hives_clock_in_all_else() -> None:
    clocks: list[Clock] = []

    class Keeper(Reader):
        """Keeps its clock."""

        def on_start(self) -> None:
            """Keep it, and set a timer."""
            clocks.append(self.clock)
            self.clock.after(3.0, lambda: self._seen.append((round(self.clock.monotonic()), 0.0)))

    seen: list[tuple[float, float]] = []
    with Harness() as bee:
        bee.start(Keeper, 0.0, seen)
        bee.run_for(4.0)
        (clock,) = clocks
        assert clock.random is bee.clock.random
        assert clock.new_id() != clock.new_id()
        assert clock.now() == bee.clock.now()
        assert seen == [(3, 0.0)]
        clock.close()
        assert bee.clock.pending() == 0


class Late(Module):
    """Notes by how much its clock is behind, for each message and when it stops."""

    name = "late"
    has_turn_clock = True

    def __init__(self, seen: list[float]) -> None:
        super().__init__()
        self._seen = seen

    @handles()
    def read(self, _message: Message) -> None:
        """Read the clock."""
        self._read()

    def on_stop(self) -> None:
        """Read the clock."""
        self._read()

    def _read(self) -> None:
        self._seen.append(round(self.runtime.clock.now() - self.clock.now(), 6))


@pytest.mark.parametrize("observed", [True, False])
def test_a_turn_that_is_over_stops_no_clock(*, observed: bool) -> None:
    """Neither in the next turn, which nobody may observe any more, nor when the module stops."""
    seen: list[float] = []
    with Harness(taps=(mock.Mock(),)) as bee:
        bee.start(Late, seen)
        bee.hive.send("late", bee.message("any", "update"))
        bee.run_for(3.0)
        if not observed:
            bee.hive.taps.clear()
            bee.hive.send("late", bee.message("any", "update"))
            bee.run_for(3.0)
    assert seen == [0.0] * (2 if observed else 3)
