"""The simulation itself: a run is a function of its plan, and the product passes without faults."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.lab.simulate import run
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.run import Simulation, run_plan
from tests.simulation.traffic import calm_plan
from tests.support.slow import one_in

ROOT = Path(__file__).parents[2]


def test_a_plan_is_a_function_of_its_seed() -> None:
    assert draw_plan(5, nodes=2) == draw_plan(5, nodes=2)
    assert draw_plan(5) != draw_plan(6)


@pytest.mark.slow
def test_a_run_is_the_same_in_every_process() -> None:
    """With any hashes of strings in the process, which decide on the order of sets."""
    program = (
        "from modules.lab.simulate.draw import draw_plan\n"
        "from modules.lab.simulate.run import run_plan\n"
        "print(*run_plan(draw_plan(2, seconds=100)).log, sep='\\n')\n"
    )
    logs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(logs) == 1
    assert "no more faults" in logs.pop()


@pytest.mark.parametrize("seed", one_in(3, range(3)))
def test_without_faults_all_agree_soon(seed: int) -> None:
    result = run_plan(draw_plan(seed, profile=FaultProfile.NONE))
    assert result.violation is None
    assert result.converged_after < 60


def test_nodes_that_do_not_agree_are_compared_with_the_cloud_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []

    def disagreements(simulation: Simulation) -> Iterator[str]:
        looks.append(simulation.world.now())
        yield "something is left"

    monkeypatch.setattr(Simulation, "_disagreements", disagreements)
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 100.0)
    violation = run_plan(calm_plan(nodes=1, seconds=5, pods=1)).violation
    assert violation is not None
    assert violation.text == "after 100 s: something is left"
    assert len(looks) < 50
    assert [each - looks[0] for each in looks[:4]] == [0.0, 1.0, 2.0, 3.0]
    assert looks[-1] - looks[0] == 101.0


def test_pods_that_run_stay_running() -> None:
    result = run_plan(calm_plan(nodes=2, seconds=60, pods=3))
    assert result.violation is None
    assert sum("cri start_container" in entry.what for entry in result.log) == 6
