"""Kills and reboots at named calls of the container runtime."""

from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.run import run_plan

_STEPS = (WorkloadStep(2.0, "pod-0-1", Shape.CRASHES), WorkloadStep(2.0, "pod-0-2", Shape.PLAIN))


def test_the_agent_is_killed_right_after_a_call() -> None:
    faults = (Fault(1.0, FaultKind.KILL_AT_CALL, 0, 20.0, 0.0, "create_container main", "pod-0-1"),)
    result = run_plan(Plan(seed=1, nodes=1, seconds=25.0, steps=_STEPS, faults=faults))
    assert result.violation is None
    assert result.kills == 1
    own = [entry.what for entry in result.log if entry.who == "node-0"]
    assert "main#0 of pod-0-1" in own[own.index("killed") - 1]


def test_a_reboot_at_a_call_may_set_the_clock_back() -> None:
    """The pods run again, and their statuses have times before the former boot's."""
    faults = (Fault(1.0, FaultKind.REBOOT_AT_CALL, 0, 20.0, -3600.0, "start_container main", "pod-0-2"),)
    result = run_plan(Plan(seed=1, nodes=1, seconds=25.0, steps=_STEPS, faults=faults))
    assert result.violation is None
    starts = [entry for entry in result.log if "start_container" in entry.what]
    assert result.kills == 1
    assert len(starts) >= 3
