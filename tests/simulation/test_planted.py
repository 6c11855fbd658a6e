"""Whether the simulation can find: bugs of the kind that the Go agent has are planted, and each must be found."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from modules.lab.simulate.seeds import SeedSettings, run_seed, small_failure
from modules.lab.simulate.world import Violation
from tests.simulation import planted

pytestmark = pytest.mark.slow
_SEEDS = 500


def first_violation(settings: SeedSettings) -> tuple[int, Violation]:
    """The first seed that finds something, and what."""
    for seed in range(_SEEDS):
        violation = run_seed(seed, settings).violation
        if violation is not None:
            return seed, violation
    pytest.fail(f"not found with {_SEEDS} seeds")


@pytest.mark.parametrize("plant", [pytest.param(plant, id=plant.__name__) for plant in planted.PLANTED])
def test_a_planted_bug_is_found(plant: Callable[[], AbstractContextManager[None]]) -> None:
    """Within 500 seeds; the finding seed finds nothing without it."""
    with plant():
        seed, violation = first_violation(SeedSettings())
    print(f"{plant.__name__}: seed {seed}: {violation}")  # noqa: T201 - shown by -s
    assert run_seed(seed, SeedSettings()).violation is None


def test_a_failure_is_made_small() -> None:
    """Of dozens of changes and faults few are left, and without the bug the small plan passes."""
    settings = SeedSettings()
    with planted.acknowledged_before_the_commit():
        seed, violation = first_violation(settings)
        small = small_failure(settings.plan(seed), violation)
    before = settings.plan(seed)
    assert small.violation is not None
    assert small.violation.invariant == violation.invariant
    assert len(small.plan.steps) + len(small.plan.faults) < (len(before.steps) + len(before.faults)) / 2
