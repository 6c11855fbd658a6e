"""`edgecore simulate`, and what it leaves of a failure."""

from pathlib import Path

import pytest

from beehive.trace.reader import read
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.report import read_plan, write_run
from modules.lab.simulate.run import run_plan
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import cli, other_commands
from tests.simulation.planted import what_is_not_known_is_removed


def test_the_command_line_knows_every_profile() -> None:
    assert set(other_commands.FAULT_PROFILES) == set(FaultProfile)


def test_seeds_that_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how many and how fast."""
    status = cli.main(["simulate", "--seed", "3", "--seeds", "2", "--cores", "1", "--hours", "0.002"])
    assert status == ExitCode.OK
    assert "2/2 seeds, 0 failed" in capsys.readouterr().out


def test_a_seed_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The seed, a small plan that fails again, a log and a trace."""
    with what_is_not_known_is_removed():
        status = cli.main(["simulate", "--seed", "3", "--hours", "0.01", "--out", str(tmp_path)])
        output = capsys.readouterr().out
        again = cli.main(["simulate", "--plan", str(tmp_path / "seed-3.plan.json"), "--out", str(tmp_path)])
    assert (status, again) == (ExitCode.VIOLATED, ExitCode.VIOLATED)
    assert "seed 3" in output
    assert "nothing of others is touched" in (tmp_path / "seed-3.log").read_text()
    assert list(read(tmp_path / "seed-3-node-0.trace"))


def test_a_plan_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    path.write_text("[]")
    assert cli.main(["simulate", "--plan", str(path), "--out", str(tmp_path)]) == ExitCode.USAGE
    assert "plan.json" in capsys.readouterr().err


def test_a_recorded_run_is_the_same_run(tmp_path: Path) -> None:
    """To the last line of the log: a run is a function of its plan, and to watch changes nothing."""
    plan = draw_plan(5, seconds=50)
    recorded, plain = run_plan(plan, traces=tmp_path), run_plan(plan)
    assert (recorded.log, recorded.violation) == (plain.log, plain.violation)


def test_a_written_plan_is_read_as_it_was(tmp_path: Path) -> None:
    result = run_plan(draw_plan(6, seconds=5), converge=False)
    path = write_run(result, tmp_path)
    assert read_plan(path.with_suffix(".plan.json")) == result.plan
