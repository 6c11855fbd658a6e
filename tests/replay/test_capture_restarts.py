"""Captures with a restarted side, or with more than the link's records, are played to their end."""

import json
from pathlib import Path
from typing import Any

import pytest

from beehive.trace import LinkFrame
from modules.lab.replay.capture import agent_runs, connections
from modules.lab.replay.commands import replayed
from modules.lab.replay.outputs import NODE, message_of
from modules.lab.replay.recorded import captures, load
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.interop.traces import KUBEEDGE_FILES, KUBEEDGE_MQTT, lines_of, recordings
from tests.replay.captures import REGISTER, cloud_restart, two_lives, write

MODULES = (NODE, "cloudhub")


@pytest.mark.parametrize("module", MODULES)
def test_a_restart_of_the_cloud_is_followed(tmp_path: Path, module: str) -> None:
    """Our edge connects again when the real one did, and goes on; our cloudhub has the node connect again."""
    recorded = load(cloud_restart(tmp_path / "captures"))
    result = replayed(recorded, module, None, None)
    assert [one.render() for one in result.differences] == []
    assert result.seconds > 60
    assert len(result.recorded) >= 30
    if module == NODE:
        assert len(set(_numbers(result.records()))) == 2


@pytest.mark.parametrize("conn", [2, 1], ids=["the same proxy", "a proxy that counts anew"])
@pytest.mark.parametrize("module", MODULES)
def test_two_lives_of_the_agent_are_two_lives(tmp_path: Path, module: str, conn: int) -> None:
    """The second begins with the store and the containers of the first."""
    recorded = load(two_lives(tmp_path / "capture.jsonl", conn=conn))
    assert len(agent_runs(connections(recorded), "lab-edge")) == 2
    result = replayed(recorded, module, None, None)
    assert [one.render() for one in result.differences] == []
    if module == NODE:
        frames = [message_of(one.frame) for one in result.records() if isinstance(one, LinkFrame)]
        asked = [(one.operation, one.resource) for one in frames if one is not None and not one.parent_id]
        assert asked.count(("insert", "null/node/lab-edge")) == 2
        assert asked.count(("query", "default/configmap/kube-root-ca.crt")) == 1


def test_a_step_that_is_missing_in_the_second_life_is_found(tmp_path: Path) -> None:
    """Though the first life took it."""
    path = two_lives(tmp_path / "capture.jsonl")
    entries = lines_of(path)
    last = next(line for line in reversed(entries) if _operation(line) == ("update", "kube-node-lease/lease/lab-edge"))
    last["msg"]["route"]["operation"] = "delete"
    write(path, entries)
    (found,) = replayed(load(path), NODE, None, None).differences
    assert "delete kube-node-lease/lease/lab-edge" in found.render()


def test_captures_are_played_in_the_order_of_their_time(tmp_path: Path) -> None:
    """Whatever their names are: one whose name comes first and that happened last had all others begin before time."""
    for name, path in zip("zyxwvut", recordings("today"), strict=True):
        (tmp_path / f"{name}.jsonl").write_bytes(path.read_bytes())
    result = replayed(load(tmp_path), NODE, None, None)
    assert result.differences == []
    assert result.seconds > 300


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("path", KUBEEDGE_FILES, ids=lambda path: path.stem)
def test_every_scenario_plays_as_far_as_we_have_the_modules(
    path: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part that is not played is reported with the reason, and does not count as a difference. The requests of
    applications to the metaserver, which are in no capture of the link, are played by
    `tests/interop/test_metaserver_recording.py`.
    """
    which = ["--module", module] if module else []
    assert main(["replay", str(path), "--check", *which]) == ExitCode.OK, capsys.readouterr().out
    said = capsys.readouterr().err
    reasons = {"d3": "devices", "j1": "jobs", "r3": "rules"} | ({"m1": "metaserver"} if module == NODE else {})
    wanted = reasons.get(path.name[:2], "")
    assert not wanted or f"of {wanted}: " in said


@pytest.mark.parametrize("module", MODULES)
def test_all_scenarios_are_one_life(module: str) -> None:
    result = replayed(captures([*KUBEEDGE_FILES, *KUBEEDGE_MQTT]), module, None, None)
    assert [one.render() for one in result.differences] == []
    assert result.not_played
    assert len(result.recorded) >= 30


def test_lines_of_unknown_kinds_are_skipped(tmp_path: Path) -> None:
    """As are fields of other types, empty lines, and frames that are no message."""
    strange: list[dict[str, Any]] = [
        {"ts": 1.0, "kind": "mqtt", "topic": "$hw/events", "payload": "x"},
        {"ts": 1.1, "kind": "ws", "listener": "tunnel", "dir": "cloud->edge", "conn": 1, "hex": "00"},
        {"ts": 1.2, "kind": "end", "listener": "ws", "dir": None, "conn": None},
        {"ts": 1.3, "kind": 7, "conn": "one", "dir": [], "listener": {}},
        {"ts": 1.4, "kind": "ws", "listener": "ws", "dir": "cloud->edge", "conn": 1, "msg": "no object"},
        {"ts": 1.5, "kind": "ws", "listener": "ws", "dir": "edge->cloud", "conn": 1, "msg": {"no": "message"}},
        {"note": "without a time"},
    ]
    lines = lines_of(REGISTER)
    began = lines[0]["ts"]
    made = [lines[0], *({**one, "ts": began + one["ts"]} if "ts" in one else one for one in strange), *lines[1:]]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, made)) + "\n")
    result = replayed(load(tmp_path / "a.jsonl"), NODE, None, None)
    assert result.differences == []
    assert len(result.recorded) >= 6


def test_other_files_than_captures_are_reported_and_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a directory; alone it is an error, as is a directory of nothing else."""
    (tmp_path / "other.jsonl").write_text('{"label": "a request", "status": 200}\n')
    assert main(["replay", str(tmp_path)]) == ExitCode.USAGE
    assert "`ts`" in capsys.readouterr().err
    (tmp_path / "register.jsonl").write_bytes(REGISTER.read_bytes() + b'{"ts": cut')
    assert main(["replay", str(tmp_path), "--check"]) == ExitCode.OK
    said = capsys.readouterr().err
    assert "other.jsonl" in said
    assert f"register.jsonl: no such line at byte {REGISTER.stat().st_size}" in said


def _numbers(records: "tuple[object, ...]") -> list[int]:
    return [one.connection for one in records if isinstance(one, LinkFrame)]


def _operation(line: dict[str, Any]) -> tuple[str, str]:
    route = line.get("msg", {}).get("route", {})
    return route.get("operation", ""), route.get("resource", "")
