"""Shrinking: the rest of a plan is needed, and no more runs are made than necessary."""

from hypothesis import given
from hypothesis import strategies as st

from modules.lab.simulate.plan import Fault, FaultKind, Plan
from modules.lab.simulate.seeds import shrink


def plan_of(times: list[int]) -> Plan:
    return Plan(0, 1, 10.0, (), tuple(Fault(float(at), FaultKind.CUT) for at in times))


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60), max_size=4))
def test_what_is_needed_remains_and_nothing_else(rest: set[int], needed: set[int]) -> None:
    """For a failure that needs all of some faults, whichever they are."""

    def fails(plan: Plan) -> bool:
        return needed <= {int(fault.at) for fault in plan.faults}

    small = shrink(plan_of(sorted(rest | needed)), fails, tries=5000)
    assert {int(fault.at) for fault in small.faults} == needed


def test_no_more_runs_than_allowed() -> None:
    runs = 0

    def fails(_plan: Plan) -> bool:
        nonlocal runs
        runs += 1
        return True

    shrink(plan_of(list(range(1000))), fails, tries=3)
    assert runs == 3
