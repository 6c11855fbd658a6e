"""What is kept of grace periods and waits whose use ends with an error."""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from beehive.simulation import Simulation
from edged.lifecycle.running_grace_periods import GracePeriod, GracePeriods
from edged.lifecycle.waits import Waits
from edged.pods.model import PodUid
from tests.support.failing import PlannedError, census

UID = PodUid("uid")


def _fail(*_: object) -> None:
    raise PlannedError


@contextmanager
def _waiting(waits: Waits, limit: GracePeriod | None = None) -> Any:
    waits.wait(_fail, UID, limit)
    yield


@pytest.mark.parametrize(
    "enter",
    [
        lambda period, *_: period.listening(lambda: None),
        lambda _, periods, __: periods.begin(UID, 60),
        lambda _, __, waits: _waiting(waits),
        lambda period, *_: period.limiting(lambda: None),
        lambda period, _, waits: _waiting(waits, period),
    ],
    ids=["listening", "begin", "wait", "limiting", "limited wait"],
)
def test_nothing_is_kept_of_what_ends_with_an_error(enter: Callable[..., AbstractContextManager[Any]]) -> None:
    """A container that cannot be stopped is tried again for as long as its node lives."""
    simulation = Simulation(1)
    owners = GracePeriod(simulation.clock, 60), GracePeriods(simulation.clock), Waits(simulation)
    before = census(owners)
    with pytest.raises(PlannedError), enter(*owners):
        raise PlannedError
    assert not census(owners).more_than(before)


def test_a_limit_does_not_outlive_what_it_limited() -> None:
    simulation, ended = Simulation(1), list[int]()
    with pytest.raises(PlannedError), GracePeriod(simulation.clock, 60).limiting(lambda: ended.append(1)):
        raise PlannedError
    simulation.run_for(1000)
    assert not ended
