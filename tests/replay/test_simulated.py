"""Runs of simulated nodes happen again: each module alone, and the whole node."""

from itertools import product
from pathlib import Path

import pytest

from modules.lab.replay.outputs import NODE
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.run import replay
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.plan import Fault, FaultKind, Plan
from tests.beehive.files.trees import open_below
from tests.replay.runs import WITHOUT_DEVICES, record
from tests.replay.search import replay_seed

RUNS = (
    pytest.param((2, FaultProfile.NONE), marks=pytest.mark.slow),
    pytest.param((6, FaultProfile.NONE), marks=pytest.mark.slow),
    (1, FaultProfile.RUNTIME),
    pytest.param((2, FaultProfile.LINK), marks=pytest.mark.slow),
    (10, FaultProfile.CLOUD),
)
"""Seed and faults of each run."""


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: f"{run[1].value}-{run[0]}")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A recorded run."""
    seed, profile = request.param
    return record(draw_plan(seed, seconds=90, profile=profile), tmp_path_factory.mktemp(f"{profile.value}-{seed}"))


@pytest.mark.parametrize("module", [*WITHOUT_DEVICES, NODE])
def test_todays_code_acts_as_recorded(run: Recorded, module: str, tmp_path: Path) -> None:
    result = replay(run, tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 20
    assert result.fed > 20
    assert open_below(tmp_path) == 0


FOUND = ((FaultProfile.STATE, 14), (FaultProfile.PAIR, 15), (FaultProfile.PAIR, 20), (FaultProfile.DISK, 17))
"""Two messages of a moment; slow writes of the outbox, twice; a commit under way at the end."""


@pytest.mark.modules_fail  # where the database ends its connections
@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "seed"),
    [*product(FaultProfile, range(1, 5)), *FOUND],
    ids=lambda value: value.value if isinstance(value, FaultProfile) else None,
)
def test_whole_nodes_repeat_their_runs(profile: FaultProfile, seed: int, tmp_path: Path) -> None:
    """`python -m tests.replay.search` does this with many more seeds."""
    result = replay_seed(seed, profile, tmp_path)
    assert result.differences == []
    assert result.fed >= result.frames > 0


def test_a_jump_of_the_wall_clock_is_in_the_trace(tmp_path: Path) -> None:
    """So that a replay's back-offs, which go by the times of containers, end when they did."""
    plan = Plan(1, 1, 12.0, (), (Fault(5.0, FaultKind.CLOCK_JUMP, 0, 0.0, -60.0),))
    (note,) = record(plan, tmp_path).notes("clock")
    assert note.time == pytest.approx(5.0)
    assert note.data == -60.0
