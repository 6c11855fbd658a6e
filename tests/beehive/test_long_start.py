"""The start of a module with much to do: it is waited for as long as it makes progress."""

import pykka
import pytest

from beehive import Hive, Module
from beehive.errors import StartError
from beehive.simulation import Simulation


class Portions(Module):
    """Needs a second for each portion of its start."""

    name = "portions"

    def __init__(self, reported: int, silent: int) -> None:
        super().__init__()
        self._reported, self._silent = reported, silent

    def on_start(self) -> None:
        for number in range(self._reported + self._silent):
            with pytest.raises(pykka.Timeout):
                self.runtime.future().get(timeout=1.0)
            if number < self._reported:
                self.announce_progress()


class After(Portions):
    """A module behind it."""

    name = "after"


def test_a_long_start_that_makes_progress_is_waited_for_and_so_is_the_next_module() -> None:
    """Each report gives it the whole time again; those after it have what is left of that."""
    runtime = Simulation(1)
    hive = Hive(runtime)
    hive.add(Portions, 60, 1)
    hive.add(After, 0, 1)
    hive.start(2.5)
    assert runtime.clock.monotonic() >= 62
    hive.stop()


def test_a_long_start_that_makes_no_progress_any_more_ends_at_its_deadline() -> None:
    """The time counts from the last report."""
    runtime = Simulation(1)
    hive = Hive(runtime)
    hive.add(Portions, 10, 50)
    with pytest.raises(StartError, match="within"):
        hive.start(2.5)
    assert runtime.clock.monotonic() < 20
    runtime.run_for(60.0)
