"""Shrinking: the rest of a plan is needed, and no more runs are made than necessary."""

from hypothesis import given
from hypothesis import strategies as st

from modules.lab.simulate.plan import Fault, FaultKind, Plan
from modules.lab.simulate.seeds import manner_of, shrink
from modules.lab.simulate.world import Violation


def plan_of(times: list[int]) -> Plan:
    return Plan(0, 1, 10.0, (), tuple(Fault(float(at), FaultKind.CUT) for at in times))


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60), max_size=4))
def test_needed_steps_remain_and_no_others(rest: set[int], needed: set[int]) -> None:
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


def test_another_failure_of_an_invariant_is_not_the_same() -> None:
    """Leaving out the objects themselves would make a plan small in another way."""

    def manner(text: str) -> tuple[str, ...]:
        return manner_of(Violation("all agree", text, 1.0))

    missing = "after 900 s: node-0: Service shop is missing"
    other = "after 900 s: node-0: Service shop has {'type': 'ClusterIP'}, and should have {'type': 'NodePort'}"
    assert manner(missing) != manner(other)
    assert manner(other) == manner("after 900 s: node-1: Service shop has {}, and should have {'a': 1}")
    lost = ("after 900.5 s: pod-0-1 (0a1b2c3d) is lost", "after 1800 s: pod-1-22 (99aa88bb) is lost")
    assert manner(lost[0]) == manner(lost[1])
