"""Timers whose functions run on a module's thread."""

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from beehive.clock import Timer
from beehive.module_timers import Continuation, ModuleTimer, ModuleTimers
from beehive.simulation import Simulation


class Bed:
    """A timer of a period of a second or of a single delay, and the inbox of its module."""

    def __init__(self, function: Callable[[], None], *, once: bool) -> None:
        self.simulation = Simulation(0)
        self.inbox: list[Continuation] = []
        self.timer = ModuleTimer(object(), self.inbox.append, function, 1.0, once=once)
        clock = self.simulation.clock
        begin: Callable[[Callable[[], None]], Timer] = lambda fire: (clock.after if once else clock.every)(1.0, fire)  # noqa: E731
        self.timer.start(begin)

    def handle(self) -> None:
        """The module handles what waits."""
        waiting, self.inbox[:] = self.inbox[:], []
        for each in waiting:
            each.call()


def test_ticks_do_not_pile_up_in_a_slow_module() -> None:
    """They go on after it has handled the one that waited, and when they are cancelled, the clock has none left."""
    ticks: list[str] = []
    bed = Bed(lambda: ticks.append("tick"), once=False)
    for _ in range(2):
        bed.simulation.run_for(10.0)
        bed.handle()
    assert ticks == ["tick", "tick"]
    assert bed.timer.cancel()
    assert not any(alarm.active for *_, alarm in bed.simulation.clock._alarms._heap)


def test_a_timer_that_has_fired_is_over_for_its_own_function() -> None:
    """Which may set the next one, and ask whether there is one."""
    seen: list[bool] = []
    bed = Bed(lambda: seen.append(bed.timer.active), once=True)
    bed.simulation.run_for(10.0)
    bed.handle()
    assert (seen, bed.timer.active, bed.timer.cancel()) == ([False], False, False)


def test_of_many_timers_those_that_are_over_are_forgotten_and_the_others_cancelled_at_the_end() -> None:
    timers, made = ModuleTimers(), list[ModuleTimer]()
    for number in range(1000):
        made.append(ModuleTimer(object(), Mock(), Mock(), once=True))
        timers.add(made[-1])
        if number % 10:
            made[-1].cancel()
    assert len(timers) < 300
    assert sum(each.active for each in made) == 100
    timers.cancel_all()
    assert (sum(each.active for each in made), len(timers)) == (0, 0)


def test_timers_are_looked_at_a_few_times_each_however_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, timers = list[ModuleTimer](), ModuleTimers()

    def is_active(timer: ModuleTimer) -> bool:
        looks.append(timer)
        return True

    monkeypatch.setattr(ModuleTimer, "active", property(is_active))
    for _ in range(2000):
        timers.add(ModuleTimer(object(), Mock(), Mock(), once=True))
    assert (len(timers), len(looks) < 2 * 2000) == (2000, True)
