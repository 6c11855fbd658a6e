"""Whether lives of workloads can find: planted bugs of controllers, which must each be found."""

import pytest

from tests.modules.cloud.controllers.lives import Life
from tests.modules.cloud.controllers.planted import PLANTED, Plant
from tests.modules.cloud.controllers.test_lives import STEPS

pytestmark = pytest.mark.slow
_SEEDS = 40


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in PLANTED])
def test_a_planted_bug_is_found(plant: Plant) -> None:
    """Within 40 lives, each of which holds without it."""
    with plant():
        for seed in range(_SEEDS):
            try:
                Life(seed).live(STEPS)
            except AssertionError as error:
                print(f"{plant.__name__}: {error}")  # noqa: T201 - shown by -s
                return
    pytest.fail(f"not found in {_SEEDS} lives")
