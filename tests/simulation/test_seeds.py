"""The product under faults: five seeds, and every plan that ever failed; `make slow` plays eighty-eight more, and
`make simulate` thousands.
"""

import pytest

from modules.lab.simulate.draw import FaultProfile
from modules.lab.simulate.plan import Plan
from modules.lab.simulate.run import run_plan
from modules.lab.simulate.seeds import SeedSettings, run_seed
from tests.simulation.regressions import plans

_QUICK = (0, 2000, 3000, 7000, 9300)
"""Seeds that are played without `make slow`."""
_SEEDS = (
    (SeedSettings(), range(40)),
    (SeedSettings(profile=FaultProfile.LINK), range(1000, 1005)),
    (SeedSettings(profile=FaultProfile.CLOUD), range(2000, 2005)),
    (SeedSettings(profile=FaultProfile.PROCESS), range(3000, 3005)),
    (SeedSettings(profile=FaultProfile.DISK), range(4000, 4005)),
    (SeedSettings(profile=FaultProfile.RUNTIME), range(5000, 5005)),
    (SeedSettings(nodes=3, seconds=120), range(6000, 6005)),
    (SeedSettings(profile=FaultProfile.API), range(7000, 7008)),
    (SeedSettings(profile=FaultProfile.STATE), range(8000, 8005)),
    (SeedSettings(nodes=2, profile=FaultProfile.PAIR), range(8100, 8105)),
    (SeedSettings(nodes=3, seconds=160, pods=1, profile=FaultProfile.CLOUD, workloads=True), range(9000, 9001)),
    (SeedSettings(nodes=3, seconds=400, pods=1, profile=FaultProfile.LINK, workloads=True), range(9100, 9102)),
    (SeedSettings(nodes=3, pods=1, workloads=True), range(9200, 9202)),
    (SeedSettings(nodes=2, seconds=120, pods=1, workloads=True, days=1.0), range(9300, 9304)),
)


@pytest.mark.parametrize(
    ("settings", "seed"),
    [
        pytest.param(
            settings, seed, id=f"{settings.profile.value}-{seed}", marks=[] if seed in _QUICK else [pytest.mark.slow]
        )
        for settings, seeds in _SEEDS
        for seed in seeds
    ],
)
def test_what_must_hold_holds(settings: SeedSettings, seed: int) -> None:
    violation = run_seed(seed, settings).violation
    assert violation is None, str(violation)


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in plans().items()])
def test_what_failed_once_does_not_fail_again(plan: Plan) -> None:
    assert run_plan(plan, keep_log=False).violation is None


def test_there_are_enough_seeds() -> None:
    assert sum(len(seeds) for _, seeds in _SEEDS) >= 97
