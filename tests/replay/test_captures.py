"""What a real cloud and a real edge said to each other, replayed against ours in the role of either side."""

import json
from pathlib import Path

import pytest

from modules.lab.replay.commands import replayed
from modules.lab.replay.recorded import captures, load
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.interop.traces import RECORDINGS, recordings


@pytest.mark.parametrize("year", ["today", "2019"])
def test_our_edge_takes_every_step_of_the_real_one(year: str) -> None:
    """A whole year's captures as one life of a node."""
    result = replayed(captures(recordings(year)), "", None, None)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) >= 10


OF_TODAY = [recordings("today"), *([path] for path in recordings("today"))]


@pytest.mark.parametrize("paths", OF_TODAY, ids=lambda paths: f"{paths[0].stem}-{len(paths)}")
def test_our_cloudhub_brings_all_messages_of_the_real_one(paths: list[Path]) -> None:
    """Each capture of today, and all of them as one life. A cloud of 2019 sent objects without asking for their
    acknowledgement, which ours does not do.
    """
    result = replayed(captures(paths), "cloudhub", None, None)
    assert [one.render() for one in result.differences] == []
    assert result.recorded


def test_an_acknowledgement_that_is_missing_is_found(tmp_path: Path) -> None:
    """Law of the comparison: a capture with a step that ours does not take is different."""
    lines = (RECORDINGS / "today" / "00-register.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    said = next(entry for entry in entries if entry["kind"] == "ws" and entry["dir"] == "edge->cloud")
    said["msg"]["route"]["resource"] = "default/configmap/never-asked"
    (tmp_path / "changed.jsonl").write_text("\n".join(map(json.dumps, entries)) + "\n")
    (found,) = replayed(load(tmp_path / "changed.jsonl"), "", None, None).differences
    assert "default/configmap/never-asked" in found.render()


def test_a_module_that_a_capture_does_not_show_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recordings("today")[0]), "--module", "edged"]) == ExitCode.USAGE
    assert "--module cloudhub" in capsys.readouterr().err
