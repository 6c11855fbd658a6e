"""The product under faults: two hundred seeds, and every plan that ever failed."""

import pytest

from modules.simulate.campaign import Settings, run_seed
from modules.simulate.draw import Profile
from modules.simulate.plan import Plan
from modules.simulate.run import run_plan
from tests.simulation.regressions import plans

_BATCH = 5
_SEEDS = (
    (Settings(), range(160)),
    (Settings(profile=Profile.LINK), range(1000, 1010)),
    (Settings(profile=Profile.CLOUD), range(2000, 2010)),
    (Settings(profile=Profile.PROCESS), range(3000, 3010)),
    (Settings(profile=Profile.DISK), range(4000, 4005)),
    (Settings(profile=Profile.RUNTIME), range(5000, 5005)),
    (Settings(nodes=3, seconds=120), range(6000, 6005)),
)
_BATCHES = [
    pytest.param(settings, seeds[begin : begin + _BATCH], id=f"{settings.profile.value}-{seeds[begin]}")
    for settings, seeds in _SEEDS
    for begin in range(0, len(seeds), _BATCH)
]


@pytest.mark.parametrize(("settings", "seeds"), _BATCHES)
def test_what_must_hold_holds(settings: Settings, seeds: range) -> None:
    outcomes = [run_seed(seed, settings) for seed in seeds]
    assert [(one.seed, str(one.violation)) for one in outcomes if one.violation is not None] == []


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in plans().items()])
def test_what_failed_once_does_not_fail_again(plan: Plan) -> None:
    assert run_plan(plan, keep_log=False).violation is None


def test_there_are_enough_seeds() -> None:
    assert sum(len(seeds) for _, seeds in _SEEDS) >= 200
