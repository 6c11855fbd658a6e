"""Runs of simulated nodes happen again: each module alone, and the whole node."""

from pathlib import Path

import pytest

from modules.replay.outputs import NODE
from modules.replay.recorded import Recorded
from modules.replay.run import MODULES, replay
from modules.simulate.draw import Profile, draw_plan
from tests.replay.runs import record

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Recorded]:
    """Recorded runs without faults, by seed."""
    plans = {seed: draw_plan(seed, seconds=90, profile=Profile.NONE) for seed in SEEDS}
    return {seed: record(plan, tmp_path_factory.mktemp(f"seed-{seed}")) for seed, plan in plans.items()}


@pytest.mark.parametrize("module", [*MODULES, NODE])
@pytest.mark.parametrize("seed", SEEDS)
def test_todays_code_does_what_was_recorded(runs: dict[int, Recorded], seed: int, module: str, tmp_path: Path) -> None:
    result = replay(runs[seed], tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 50
    assert result.fed > 50
