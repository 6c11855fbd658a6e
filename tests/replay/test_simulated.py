"""Runs of simulated nodes happen again: each module alone, and the whole node."""

from pathlib import Path

import pytest

from modules.tools.replay.outputs import NODE
from modules.tools.replay.recorded import Recorded
from modules.tools.replay.run import MODULES, replay
from modules.tools.simulate.draw import FaultProfile, draw_plan
from tests.replay.runs import record

RUNS = (
    (1, FaultProfile.NONE),
    (2, FaultProfile.NONE),
    (1, FaultProfile.RUNTIME),
    (2, FaultProfile.LINK),
    (10, FaultProfile.CLOUD),
)
"""Seed and faults of each run."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, FaultProfile], Recorded]:
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
    runs: dict[tuple[int, FaultProfile], Recorded], run: tuple[int, FaultProfile], module: str, tmp_path: Path
) -> None:
    result = replay(runs[run], tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 20
    assert result.fed > 20
