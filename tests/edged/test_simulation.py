"""edged in a bad world, a seed a run. A failure prints its seed; keep it below, with the name of what it found."""

from pathlib import Path

import pytest

from tests.edged.world import World
from tests.support.slow import one_in

RUNS = 200
BAD_SECONDS = 45.0
"""Virtual seconds of faults in one run."""
FOUND = {
    "running containers counted as lost before the runtime was asked": 1,
    "a pod that came again was forgotten with its former life": 11,
    "what the PLEG saw counted as newer than its lists": 38,
    "a restart without pods left the old ones on the local server": 47,
    "the files of a pod whose removal was cut short stayed": 95,
    "a pod that was deleted before the store's list came was revived by it": 98,
    "a pod whose container was made and never started was Pending for ever": 308,
    "a status that was right when edged began was not sent again to a cloud that had lost it": 99,
}
"""Seeds that found something in edged, by what it was."""


def _live(seed: int, root: Path, seconds: float) -> None:
    world = World(seed, root)
    try:
        world.live(seconds)
        assert world.wrong == [], f"seed {seed}"
        assert world.unsettled() == [], f"seed {seed}"
    finally:
        world.bench.stop()


@pytest.mark.parametrize("seed", one_in(20, range(RUNS)))
def test_whatever_happens_nothing_runs_twice_and_all_comes_true_in_the_end(seed: int, tmp_path: Path) -> None:
    _live(seed, tmp_path, BAD_SECONDS)


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND.keys())
def test_found_defects_stay_fixed(seed: int, tmp_path: Path) -> None:
    _live(seed, tmp_path, BAD_SECONDS)


def test_a_run_is_a_function_of_its_seed(tmp_path: Path) -> None:
    first, second = (World(7, tmp_path / name) for name in ("first", "second"))
    for world in (first, second):
        world.live(20.0)
        world.bench.stop()
    assert first.runtime.calls == second.runtime.calls
    assert first.cloud.patches == second.cloud.patches
