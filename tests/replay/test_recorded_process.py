"""A real `edgecore run --record`, on threads, with a real cloud and the embedded runtime: what it did happens again."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.trace import StoreCommit
from modules.processes.edgecore.config.writing import render
from modules.tools.replay.fixture import reduced, rerecorded
from modules.tools.replay.outputs import NODE
from modules.tools.replay.recorded import Recorded, load
from modules.tools.replay.run import MODULES, replay
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod, restarts_of
from tests.end_to_end.processes import PATIENCE, REPOSITORY, Process, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest


class RecordedMachine(Machine):
    """A machine whose edgecore is recorded."""

    @property
    def trace(self) -> Path:
        """Where to."""
        return self.directory / "run.trace"

    def start_edge(self) -> None:
        """Starts it."""
        file = self.edge.file
        file.write_text(render(self.edge._config(self.cloud.address)))
        arguments = ["run", "--config", str(file), "--record", str(self.trace)]
        self.edge._process = Process("modules.processes.edgecore", arguments, self.directory / "edgecore.log")


@pytest.fixture(
    scope="module",
    params=["sleep 1; exit 3", pytest.param("exit 3", marks=pytest.mark.slow)],
    ids=["a-second", "milliseconds"],
)
def recorded(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    """A pod runs, one crashes and comes again, one has files that change; all are deleted.

    A container that lives for a second is seen running by all who read it, and ends when nobody reads it any more: the
    order of what happens to it does not depend on threads. One that lives for milliseconds ends while its worker and
    the PLEG read it, and on a very busy machine late timers come between, which a replay cannot know.
    """
    machine = RecordedMachine(EmbeddedUnderTest())
    try:
        machine.cloud.start()
        machine.start_edge()
        _live(machine, request.param)
        machine.edge.process.signal(signal.SIGTERM)
        assert machine.edge.process.wait() == 0
        yield load(machine.trace)
    finally:
        machine.close()


def _live(machine: Machine, crash: str) -> None:
    cloud, pods = machine.cloud, machine.cloud.pods
    cloud.apply(pod("runs"))
    pods.wait("runs", is_ready)
    volume = {"name": "cm", "configMap": {"name": "settings"}}
    cloud.apply(
        config_map("settings", key="1"),
        pod("files", container(volumeMounts=[mount("cm", "/cm")]), volumes=(volume,)),
        pod("crashes", container(crash)),
    )
    pods.wait("files", is_ready)
    pods.wait("crashes", lambda obj: restarts_of(obj) >= 1)
    wait_until(lambda: "/runs." in _events(machine), "the events of the first second have left")
    cloud.apply(config_map("settings", key="2"))
    for name in ("runs", "files", "crashes"):
        cloud.delete("pod", name, grace=1)
    for name in ("runs", "files", "crashes"):
        pods.wait_gone(name)


def _events(machine: Machine) -> str:
    command = [
        sys.executable,
        "-m",
        "modules.processes.edgecore",
        "store",
        "list",
        "event",
        "--config",
        str(machine.edge.file),
    ]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


@pytest.mark.parametrize("module", [NODE, *(pytest.param(each, marks=pytest.mark.slow) for each in MODULES)])
def test_what_a_process_did_happens_again(recorded: Recorded, module: str, tmp_path: Path) -> None:
    result = replay(recorded, tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 20


def test_one_pod_of_it_becomes_a_fixture(recorded: Recorded, tmp_path: Path) -> None:
    """And that is reproduced too. Of the other pods nothing is left, nor of their events."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    smaller = reduced(recorded, "default", "crashes")
    assert {name for name in ("runs", "files", "crashes") if _has_events(recorded, name)} >= {"runs", "crashes"}
    assert [name for name in ("runs", "files", "crashes") if _has_events(smaller, name)] == ["crashes"]
    made, result = rerecorded(smaller, tmp_path / "first")
    assert [one.render() for one in result.differences] == []
    assert replay(made, tmp_path / "second").differences == []
    assert not any("/runs" in one.message.resource for one in made.delivered())


def _has_events(recorded: Recorded, pod_name: str) -> bool:
    keys = (change.key for one in recorded.records if isinstance(one, StoreCommit) for change in one.changes)
    return any(key.startswith(f"default/event/{pod_name}.") for key in keys)
