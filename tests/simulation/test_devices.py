"""Devices in the simulation: a few seeds, and bugs that are put into devicetwin must be found."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from modules.cloud.client.calls import ApiResult
from modules.cloud.devicecontroller.status_writer import StatusWriter
from modules.edge.devicetwin import twins, uplink
from modules.edge.devicetwin.module import DeviceTwin
from modules.edge.devicetwin.slots import Slots
from modules.edge.devicetwin.uplink import Uplink
from modules.edge.dmi import catalogue
from modules.lab.simulate import run
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.plan import DeviceAction, DeviceStep, Fault, FaultKind, Plan
from modules.lab.simulate.run import run_plan

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", range(2))
def test_devices_agree_with_the_cloud_in_the_end(seed: int) -> None:
    """Whatever was cut, killed, locked or set back; `edgecore simulate` plays any number of seeds."""
    result = run_plan(draw_plan(seed, profile=FaultProfile.ALL, devices=2, pods=0, seconds=80.0), keep_log=False)
    assert result.violation is None


def test_devices_agree_with_the_cluster_of_a_cloudcore() -> None:
    """Whatever its API server does; cloudcore reads Devices there, and writes DeviceStatuses."""
    plan = draw_plan(3, profile=FaultProfile.API, devices=2, pods=0, seconds=80.0)
    assert plan.cluster
    assert plan.devices
    assert run_plan(plan, keep_log=False).violation is None


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(FaultProfile), ids=str)
def test_devices_agree_under_each_kind_of_fault(profile: FaultProfile) -> None:
    for seed in range(100, 104):
        result = run_plan(draw_plan(seed, profile=profile, devices=2, pods=1), keep_log=False)
        assert (seed, result.violation) == (seed, None)


def _plan(faults: tuple[Fault, ...], last: DeviceAction, *, cluster: bool = False) -> Plan:
    """A device that is there at 2 s, and reports at 5 s; at 25 s it reports again, or another value is desired."""
    events = ((2.0, DeviceAction.DESIRED, 10), (5.0, DeviceAction.REPORTED, 0), (25.0, last, 20))
    devices = tuple(DeviceStep(at, "device", what, 0, value) for at, what, value in events)
    return Plan(3, 1, 45.0, (), faults, devices=devices, cluster=cluster)


def _delta_not_repeated(patch: Patch) -> None:
    patch.setattr(DeviceTwin, "_publish_deltas", lambda _self: None)


def _time_of_the_clock(patch: Patch) -> None:
    """And what would heal it."""
    patch.setattr(twins, "_time", lambda _side, at: at.now)
    _later_times_not_heard(patch)


def _answer_before_the_commit(patch: Patch) -> None:
    take = Slots._update

    def hasty(self: Slots, device_id: str, device: Any, waiting: Any) -> None:
        self._publish(waiting)
        take(self, device_id, device, msgspec.structs.replace(waiting, publications=()))

    patch.setattr(Slots, "_update", hasty)


def _dropped_without_a_connection(patch: Patch) -> None:
    """KubeEdge's: what is to be told while the link is down is forgotten."""
    note = Uplink.enqueue
    patch.setattr(Uplink, "enqueue", lambda self, device: note(self, device) if self._connected else None)


def _later_times_not_heard(patch: Patch) -> None:
    """What a cloud that only refuses older values leads to: a DeviceStatus that is right an hour later."""
    patch.setattr(uplink, "_later", lambda _twins: {})


BUGS: dict[str, tuple[Callable[[Patch], None], tuple[Fault, ...], DeviceAction, str]] = {
    "a delta is not told again after a kill": (
        _delta_not_repeated,
        (Fault(20.0, FaultKind.BROKER_AWAY, 0, 15.0), Fault(28.0, FaultKind.KILL, 0, 0.0, 1.0)),
        DeviceAction.DESIRED,
        "the device was told 10",
    ),
    "a value has the time of a clock that was set back": (
        _time_of_the_clock,
        (Fault(20.0, FaultKind.CLOCK_JUMP, 0, 0.0, -3600.0),),
        DeviceAction.REPORTED,
        "its DeviceStatus has",
    ),
    "a node without its database and with a clock that was set back does not hear which time the cloud has": (
        _later_times_not_heard,
        (Fault(19.0, FaultKind.CLOCK_JUMP, 0, 0.0, -3600.0), Fault(20.0, FaultKind.STORE_LOST)),
        DeviceAction.REPORTED,
        "its DeviceStatus has",
    ),
    "a report is answered before it is stored": (
        _answer_before_the_commit,
        (Fault(20.0, FaultKind.SLOW_DISK, 0, 20.0, 2.0),),
        DeviceAction.REPORTED,
        "a report is stored before it is answered",
    ),
    "a report without a connection is forgotten": (
        _dropped_without_a_connection,
        (Fault(20.0, FaultKind.CUT, 0, 20.0),),
        DeviceAction.REPORTED,
        "its DeviceStatus has",
    ),
}


@pytest.mark.parametrize("bug", list(BUGS))
def test_a_planted_bug_is_found(bug: str, monkeypatch: Patch) -> None:
    """And without the bug the same plan has no violation."""
    plant, faults, last, told = BUGS[bug]
    plan = _plan(faults, last)
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 90.0)
    assert run_plan(plan, keep_log=False).violation is None
    plant(monkeypatch)
    assert told in str(run_plan(plan, keep_log=False).violation)


def _told_unchecked(patch: Patch) -> None:
    patch.setattr(catalogue, "desired_fault", lambda *_: "")


def _nothing_withdrawn(patch: Patch) -> None:
    patch.setattr(twins, "withdraw", lambda stored, _fault, _at: stored)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (_told_unchecked, "no mapper is told what the model forbids"),
        (_nothing_withdrawn, "forbids a desired value, expected is 10"),
    ],
    ids=["mapper", "twin"],
)
def test_a_value_that_a_changed_model_forbids_is_found(
    plant: Callable[[Patch], None], told: str, monkeypatch: Patch
) -> None:
    """The model forbids all desired values at 15 s; another is desired at 25 s."""
    plan = _plan((), DeviceAction.DESIRED)
    model = DeviceStep(15.0, "model", DeviceAction.MODEL)
    plan = msgspec.structs.replace(plan, devices=(*plan.devices[:2], model, plan.devices[2]))
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 90.0)
    assert run_plan(plan, keep_log=False).violation is None
    plant(monkeypatch)
    assert told in str(run_plan(plan, keep_log=False).violation)


def test_a_report_that_the_cluster_refuses_for_a_while_is_not_lost(monkeypatch: Patch) -> None:
    """A cloudcore that answers a node although its write has failed is found."""
    plan = _plan((Fault(24.5, FaultKind.API_FAILS, 0, 60.0, 1.0),), DeviceAction.REPORTED, cluster=True)
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 90.0)
    assert run_plan(plan, keep_log=False).violation is None
    finish = StatusWriter._finish

    def hasty(
        self: StatusWriter, key: Any, device: Any, report: Any, waiting: Any, result: Any, made: Any = None
    ) -> None:
        if result.refusal is not None:
            waiting, device.waiting = [*waiting, *device.waiting], []
        finish(self, key, device, report, waiting, ApiResult(), made)

    monkeypatch.setattr(StatusWriter, "_finish", hasty)
    assert "its DeviceStatus has" in str(run_plan(plan, keep_log=False).violation)
