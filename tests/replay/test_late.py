"""A recording that begins on a store with pods and devices: the same happens again, and other decisions differ.

The node is stopped and started, killed, and rebooted; each of its processes is one run of the trace.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from msgspec.structs import replace

from beehive import Message, ModuleName
from beehive.hive import Hive
from beehive.trace.entries import AnyEntry, RecorderNote
from beehive.trace.flight_recorder import FlightRecorder
from beehive.trace.format import NoteKind
from metamanager.local_query import LocalQuery
from modules.lab.replay.outputs import MODULES, NODE
from modules.lab.replay.recorded import Recorded, load_runs
from modules.lab.replay.run import replay
from modules.lab.simulate.plan import DeviceAction, DeviceStep, Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.recording import ProcessRecorder
from modules.lab.simulate.run import run_plan
from tests.support.slow import one_in

PLAN: Final = Plan(
    seed=21,
    nodes=1,
    seconds=100.0,
    steps=(
        WorkloadStep(0.5, "settings-0", Shape.CONFIGMAP),
        WorkloadStep(0.6, "keys-0", Shape.SECRET),
        WorkloadStep(1.0, "files", Shape.MOUNTS),
        WorkloadStep(1.5, "stays", Shape.TWO),
        WorkloadStep(2.0, "from-a-file", Shape.STATIC),
        WorkloadStep(30.0, "settings-0", Shape.CONFIGMAP, revision=2),
        WorkloadStep(32.0, "later", Shape.PLAIN),
        WorkloadStep(36.0, "stays", Shape.TWO, revision=0),
        WorkloadStep(58.0, "files", Shape.MOUNTS, revision=0),
        WorkloadStep(85.0, "later", Shape.PLAIN, revision=0),
    ),
    faults=(
        Fault(20.0, FaultKind.RESTART, seconds=2.0),
        Fault(50.0, FaultKind.KILL, seconds=2.0),
        Fault(75.0, FaultKind.REBOOT, seconds=2.0),
    ),
    devices=(
        DeviceStep(3.0, "thermometer", DeviceAction.DESIRED, value=20),
        DeviceStep(6.0, "thermometer", DeviceAction.ONLINE),
        DeviceStep(8.0, "thermometer", DeviceAction.REPORTED),
        DeviceStep(28.0, "thermometer", DeviceAction.REPORTED),
        DeviceStep(34.0, "thermometer", DeviceAction.DESIRED, value=25),
        DeviceStep(60.0, "thermometer", DeviceAction.OFFLINE),
        DeviceStep(62.0, "thermometer", DeviceAction.REPORTED),
        DeviceStep(88.0, "thermometer", DeviceAction.REPORTED),
    ),
    uploads=7.0,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    """The processes of a node that is stopped, killed, and rebooted."""
    return _runs(PLAN, tmp_path_factory.mktemp("late"))


def _runs(plan: Plan, directory: Path) -> list[Recorded]:
    run_plan(plan, converge=False, traces=directory)
    (trace,) = directory.glob("*.trace")
    found = list(load_runs(trace))
    assert [run.number for run in found] == list(range(1, 2 + len(plan.faults)))
    return found


def test_a_simulated_run_tells_the_order_of_one_moment(runs: list[Recorded]) -> None:
    """Each record has a time of its own; a commit begins after all messages whose changes it has."""
    for run in runs:
        times = [record.time for record in run.records]
        assert times == sorted(set(times))
        ends = {one.span: one.time for one in run.delivered() if one.way != "response"}
        caused = [one for one in run.commits() if one.cause in ends]
        assert caused
        assert all(ends[one.cause] < one.time - one.seconds + 1e-9 for one in caused)
        assert run.notes(NoteKind.TURN)


@pytest.mark.parametrize("module", [*MODULES, NODE])
def test_each_run_happens_again(runs: list[Recorded], module: str, tmp_path: Path) -> None:
    for run in runs:
        assert _differences(run, module, tmp_path / str(run.number)) == [], f"run {run.number}"


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 3, 5, 7, 8))])
def test_orders_of_one_moment_happen_again(seed: int, tmp_path: Path) -> None:
    """Whatever comes first at a start: a static pod, the runtime's answers, the report of the node, or the store's."""
    (tmp_path / "traces").mkdir()
    for run in _runs(replace(PLAN, seed=seed), tmp_path / "traces"):
        for module in (ModuleName.EDGED, NODE):
            assert _differences(run, module, tmp_path / f"{run.number}-{module}") == [], f"run {run.number}"


def _forgets_devices(query: LocalQuery, request: Message) -> list[str]:
    return [] if request.route.resource == "null/devicetwin" else _find(query, request)


_find: Final = LocalQuery.find
PLANTED: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    ModuleName.EDGED: ("edged.lifecycle.stop_container.grace_seconds", lambda *_: 2),
    ModuleName.METAMANAGER: ("metamanager.local_query.LocalQuery.find", _forgets_devices),
    ModuleName.DEVICETWIN: ("modules.edge.devicetwin.module.confirmed", lambda device, _number: device),
}
"""A wrong function of each module: containers get another grace period, the stored devices are not found, the cloud's
confirmations are ignored.
"""


@pytest.mark.parametrize("module", PLANTED)
def test_a_wrong_change_is_found_in_a_late_recording(runs: list[Recorded], module: str, tmp_path: Path) -> None:
    with mock.patch(*PLANTED[module]):
        assert _differences(runs[1], module, tmp_path / "alone")
        assert _differences(runs[1], NODE, tmp_path / "node")


def _differences(run: Recorded, module: str, root: Path) -> list[str]:
    root.mkdir()
    result = replay(run, root, module)
    assert result.fed > 0
    return [one.render() for one in result.differences]


class _FlightRecorded(ProcessRecorder):
    """Writes what the flight recorder of a process has, as a signal makes edgecore do."""

    def __init__(self, hive: Hive, node: str, seed: int, configuration: dict[str, Any]) -> None:
        super().__init__(hive, node, seed, configuration)
        self._flight = FlightRecorder(hive.clock, seconds=2 * PLAN.seconds)  # it is written at the end of the run
        self._numbers: list[int] = []
        self._add(RecorderNote(hive.clock.monotonic(), NoteKind.BEGUN, "the process has begun"))
        self._header = replace(self._header, why="signal")

    def _add(self, entry: AnyEntry) -> None:
        self._numbers.append(self._hive.next_span())
        self._flight.add(entry)

    def write(self, path: Path) -> None:
        self._entries = list(zip(self._flight.entries(), self._numbers, strict=True))
        super().write(path)


@pytest.mark.parametrize("module", one_in(2, [NODE, ModuleName.EDGED]))
def test_a_flight_recording_of_a_young_process_happens_again(module: str, tmp_path: Path) -> None:
    """A process so young that all of its life is in there; the second one begins on a store with pods and devices."""
    steps = tuple(step for step in PLAN.steps if step.shape != Shape.STATIC)
    (tmp_path / "traces").mkdir()
    with mock.patch("modules.lab.simulate.node.ProcessRecorder", _FlightRecorded):
        runs = _runs(replace(PLAN, steps=steps, faults=PLAN.faults[:2]), tmp_path / "traces")
    for run in runs[:2]:
        assert run.header.why == "signal"
        assert run.has_beginning
        assert _differences(run, module, tmp_path / str(run.number)) == [], f"run {run.number}"
    assert len(runs[1].records) > 200
