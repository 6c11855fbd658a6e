"""The replay gate, with programs that print what a replay would."""

import os
import sys
import sysconfig
from argparse import Namespace
from pathlib import Path

import msgspec
import pytest

from modules.processes.edgecore.upgrade import commands, replay_gate
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.replay_gate import FAILS, compare, recordings
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle
from tests.end_to_end.processes import REPOSITORY
from tests.modules.processes.edgecore.upgrade.releases import make_wheel, manifest_for
from tests.replay.fixtures import CHANGED, path_of
from tests.support.patience import PATIENCE

SAME = "sys.exit(0)"
OTHER = "print('stop_container\\nkill_pod'); sys.exit(7)"
BUSY = "print('kill_pod'); sys.exit(7)"
BROKEN = "sys.exit('no run from its beginning')"
HANGS = "import signal; signal.pause()"


def program(path: Path, text: str) -> Path:
    """Write a program that replays as the text says."""
    path.write_text(f"#!{sys.executable}\nimport sys\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("new", "current", "replayed", "left_out", "differences"),
    [
        (SAME, BROKEN, 1, {}, set()),
        (OTHER, SAME, 1, {}, {"stop_container", "kill_pod"}),
        (OTHER, BUSY, 1, {}, {"stop_container"}),
        (BUSY, OTHER, 1, {}, set()),
        (BROKEN, SAME, 1, {}, {FAILS}),
        (BROKEN, BUSY, 1, {}, {FAILS}),
        (BROKEN, BROKEN, 0, {"a.trace": "no run from its beginning"}, set()),
    ],
)
@pytest.mark.extended
def test_what_counts(
    new: str, current: str, replayed: int, left_out: dict[str, str], differences: set[str], tmp_path: Path
) -> None:
    trace = tmp_path / "a.trace"
    trace.touch()
    found = compare(program(tmp_path / "new", new), program(tmp_path / "old", current), [trace], PATIENCE)
    assert (found.replayed, found.left_out, set(found.differences)) == (replayed, left_out, differences)


@pytest.mark.extended
def test_the_replays_of_real_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that differs with this tree's code, and one that does not."""
    # at the lowest priority, a replay waits for all other tests
    monkeypatch.setattr(replay_gate, "_LOWEST", os.getpriority(os.PRIO_PROCESS, 0))
    path = [str(REPOSITORY), sysconfig.get_paths()["purelib"]]
    text = f"sys.path[:0] = {path!r}\nfrom modules.processes.edgecore.__main__ import main\nsys.exit(main())"
    new, same = program(tmp_path / "new", text), program(tmp_path / "old", SAME)
    traces = [path_of(CHANGED), path_of("crashes")]
    found = compare(new, same, traces, PATIENCE)
    assert (found.replayed, found.left_out, found.differences) == (2, {}, {"stop_container": traces[0].name})


@pytest.mark.extended
def test_a_difference_is_allowed_by_the_release_or_by_name(tmp_path: Path) -> None:
    """All of them have to be."""
    installation = Installation(tmp_path / "i")
    old = installation.versions / "1.0.0" / "bin"
    old.mkdir(parents=True)
    program(old / "edgecore", SAME)
    installation.activate("1.0.0")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "1.trace").touch()
    handle = NodeHandle(str(tmp_path / "lock"), "", [], [])
    manifest = manifest_for(make_wheel(tmp_path, "1.0.1"), "1.0.1")

    def check(*allowed: str, meant: tuple[str, ...] = ()) -> list[str]:
        chosen = Namespace(replay_seconds=PATIENCE, allow_difference=list(allowed))
        release = msgspec.structs.replace(manifest, differences=meant)
        return commands._replay(chosen, program(tmp_path / "new", OTHER), installation, handle, release, tmp_path)

    for refused in ((), ("kill_pod",), ("other",)):
        with pytest.raises(UpgradeError, match=r"'stop_container' \(1\.trace\)"):
            check(*refused)
    assert check("kill_pod", meant=("stop_container",)) == check("kill_pod", "stop_container")


@pytest.mark.extended
def test_the_time_is_bounded(tmp_path: Path) -> None:
    trace = tmp_path / "a.trace"
    trace.touch()
    found = compare(program(tmp_path / "new", HANGS), program(tmp_path / "old", SAME), [trace], 0.5)
    assert found.left_out == {"a.trace": "no time was left"}


def test_a_recording_that_memory_does_not_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(replay_gate, "LARGEST_RECORDING", 3)
    trace = tmp_path / "a.trace"
    trace.write_bytes(b"four")
    found = compare(tmp_path / "none", tmp_path / "none", [trace], PATIENCE)
    assert (found.replayed, set(found.left_out)) == (0, {"a.trace"})


def test_which_recordings_a_node_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["edged/traces/1.trace", "one.trace", "parts/1.trace", "parts/2.trace", "other.trace"]
    for age, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (age, age))

    def found(*arguments: str) -> list[str]:
        paths = recordings(arguments, tmp_path, tmp_path / "edged")
        return [str(path.relative_to(tmp_path)) for path in paths]

    assert found() == names[:1]
    monkeypatch.setattr(replay_gate, "MOST_RECORDINGS", 2)
    assert found("--record", "parts") == ["parts/2.trace", "parts/1.trace"]
    monkeypatch.undo()
    assert found("--record", "one.trace") == ["one.trace", "edged/traces/1.trace"]
    assert found(f"--record={tmp_path}/parts") == ["parts/2.trace", "parts/1.trace", "edged/traces/1.trace"]
    assert found("--record", "none.trace", "--record") == names[:1]
