"""Runs of simulated nodes happen again: each module alone, and the whole node."""

from pathlib import Path

import pytest

from modules.replay.outputs import NODE
from modules.replay.recorded import Recorded
from modules.replay.run import MODULES, replay
from modules.simulate.draw import Profile, draw_plan
from tests.replay.runs import record

RUNS = ((1, Profile.NONE), (2, Profile.NONE), (1, Profile.RUNTIME), (2, Profile.LINK), (10, Profile.CLOUD))
"""Seed and faults of each run."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, Profile], Recorded]:
    """Recorded runs."""
    return {
        (seed, profile): record(
            draw_plan(seed, seconds=90, profile=profile), tmp_path_factory.mktemp(f"{profile.value}-{seed}")
        )
        for seed, profile in RUNS
    }


@pytest.mark.parametrize("module", [*MODULES, NODE])
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run[1].value}-{run[0]}")
def test_todays_code_does_what_was_recorded(
    runs: dict[tuple[int, Profile], Recorded], run: tuple[int, Profile], module: str, tmp_path: Path
) -> None:
    result = replay(runs[run], tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 20
    assert result.fed > 20
