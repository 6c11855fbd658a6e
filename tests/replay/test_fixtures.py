"""Recorded runs that today's code must reproduce, and a run that it must not."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from edged.pods.backoff import BackOffEntry, advance
from modules.apimachinery.types import Nanoseconds
from modules.lab.replay.outputs import NODE
from modules.lab.replay.recorded import load
from modules.lab.replay.report import figures_text
from modules.lab.replay.run import replay
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.end_to_end.processes import REPOSITORY
from tests.replay.fixtures import CHANGED, FIXTURES, path_of
from tests.replay.runs import WITHOUT_DEVICES


@pytest.mark.parametrize("module", [*WITHOUT_DEVICES, NODE])
@pytest.mark.parametrize("name", FIXTURES)
def test_a_fixture_is_reproduced(name: str, module: str, tmp_path: Path) -> None:
    """When this fails on purpose: `python -m tests.replay.fixtures` records them again."""
    result = replay(load(path_of(name)), tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 10


@pytest.mark.parametrize("name", FIXTURES)
def test_a_fixture_is_about_one_pod_and_small(name: str) -> None:
    recorded = load(path_of(name))
    pods = {one.message.resource for one in recorded.delivered() if "/pod/" in one.message.resource}
    assert pods == {f"default/pod/{FIXTURES[name].pod}"}
    assert path_of(name).stat().st_size < 600_000


def _slower(entry: BackOffEntry | None, event: Nanoseconds, now: Nanoseconds, policy: Any) -> BackOffEntry:
    found = advance(entry, event, now, policy)
    return BackOffEntry(Nanoseconds(found.delay * 3 // 2), found.updated)


PLANTED: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "crashes": ("edged.pods.backoff.advance", _slower),
    "late_settings": ("edged.sync.loop.SyncLoop.handle_dependency_change", lambda *_: None),
    "offline": ("edged.sync.loop.SyncLoop.handle_status_period", lambda *_: None),
}
"""A wrong function that each notices: a longer back-off, no sync of the pod that waits for its ConfigMap, and no status
that is sent again (all else that a status period does follows from the node's report, too).
"""


@pytest.mark.parametrize("name", PLANTED)
def test_a_small_change_is_found(name: str, tmp_path: Path) -> None:
    with mock.patch(*PLANTED[name]):
        assert replay(load(path_of(name)), tmp_path, "edged").differences


@pytest.mark.parametrize("module", ["edged", NODE])
def test_a_changed_decision_is_found_and_named(module: str, tmp_path: Path) -> None:
    first = replay(load(path_of(CHANGED)), tmp_path, module).differences[0].render()
    assert "otherwise than recorded: stop_container" in first
    assert "-grace_seconds: 2" in first
    assert "+grace_seconds: 5" in first


def test_a_changed_decision_does_not_concern_other_modules(tmp_path: Path) -> None:
    assert replay(load(path_of(CHANGED)), tmp_path, "metamanager").differences == []


def test_the_command_prints_the_differences_and_ends_with_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(path_of(CHANGED)), "--module", "edged", "--check"]) == ExitCode.DIFFERENT
    told = capsys.readouterr()
    assert "the earliest" in told.out
    assert "edged → metamanager: request" in told.out
    assert "times real time" in told.err
    assert main(["replay", str(path_of(CHANGED)), "--module", "edged"]) == ExitCode.OK
    assert main(["replay", str(path_of("crashes")), "--check"]) == ExitCode.OK


def test_the_kinds_of_decisions_that_differ_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    """They name no object, so that a release can say beforehand which of them it means to change."""
    assert main(["replay", str(path_of(CHANGED)), "--check", "--names"]) == ExitCode.DIFFERENT
    assert capsys.readouterr().out == "stop_container\n"


def test_until_a_moment_nothing_after_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """The changed decision comes at about 18 s."""
    assert main(["replay", str(path_of(CHANGED)), "--check", "--until", "10"]) == ExitCode.OK
    assert capsys.readouterr().out == ""


def test_a_fixture_is_made_of_a_trace_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made.trace"
    assert main(["trace", "record-fixture", str(path_of("init")), "default/init-pod", "-o", str(made)]) == ExitCode.OK
    assert capsys.readouterr().out == ""
    assert main(["replay", str(made), "--check"]) == ExitCode.OK


def test_a_pod_that_the_trace_does_not_know_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["trace", "record-fixture", str(path_of("init")), "default/nobody", "-o", str(tmp_path / "made")]
    assert main(arguments) == ExitCode.USAGE
    assert "it knows default/init-pod" in capsys.readouterr().err


def test_what_begins_in_the_middle_of_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flight.trace").write_bytes(path_of("init").read_bytes().replace(b"\xa6record", b"\xa6crash!", 1))
    assert main(["replay", str(tmp_path / "flight.trace")]) == ExitCode.USAGE
    assert "run --record" in capsys.readouterr().err


def test_making_a_fixture_prints_the_made_files_and_nothing_else(tmp_path: Path) -> None:
    """It does not print what modules log in the replay. The test runs a process, because pytest captures logs."""
    made = tmp_path / "made.trace"
    command = ["trace", "record-fixture", str(path_of("init")), "default/init-pod", "-o", str(made)]
    done = subprocess.run(
        [sys.executable, "-m", "modules.processes.edgecore", *command],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    (line,) = done.stderr.splitlines()
    assert "made.trace: " in line
    assert " records, " in line


@pytest.mark.parametrize("fixture", [CHANGED, "crashes"])
def test_no_more_is_done_than_was_recorded(fixture: str, tmp_path: Path) -> None:
    """An action that was not recorded is a difference, and does not stand in for a recorded one."""
    result = replay(load(path_of(fixture)), tmp_path, "edged")
    found = re.search(r"(\d+) of (\d+) recorded things done", figures_text(result))
    assert found is not None
    missing = [one for one in result.differences if one.recorded is not None]
    assert [int(number) for number in found.groups()] == [len(result.recorded) - len(missing), len(result.recorded)]
