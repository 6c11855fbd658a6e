"""The simulated cluster: cloudcore as the client of an API server, and each fault between the two."""

from modules.tools.simulate.draw import FaultProfile, draw_plan
from modules.tools.simulate.draw_api import API
from modules.tools.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.tools.simulate.run import run_plan

_STEPS = tuple(WorkloadStep(float(at), f"pod-0-{at}", Shape.PLAIN) for at in range(2, 60, 6))


def _plan(*faults: Fault) -> Plan:
    return Plan(seed=1, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=True)


def test_each_fault_of_an_api_server_is_felt() -> None:
    """The log says what the API server did; in the end all agree."""
    faults = (
        Fault(5.0, FaultKind.API_BUSY, 0, 3.0, 1.0),
        Fault(10.0, FaultKind.API_FAILS, 0, 4.0, 1.0),
        Fault(20.0, FaultKind.API_RESTART, 0, 2.0),
        Fault(30.0, FaultKind.API_RESTORED, 0, 2.0, 10.0),
        Fault(54.0, FaultKind.WATCH_CUT, 0, 8.0, 1.0),
    )
    result = run_plan(_plan(*faults))
    assert result.violation is None
    log = "\n".join(entry.what for entry in result.log if entry.who == "api")
    for what in ("429 to ", "500 to ", "life 2 begins", "restored to version", "(watch)"):
        assert what in log


def test_a_lost_answer_is_asked_for_again() -> None:
    """A patch is carried out several times, and does no harm."""
    result = run_plan(_plan(Fault(7.0, FaultKind.API_LOSES_ANSWERS, 0, 6.0, 1.0)))
    assert result.violation is None
    patches = [one for one in result.log if one.what == "<- PATCH /api/v1/namespaces/default/pods/pod-0-8/status"]
    assert len(patches) > 1


def test_the_profile_draws_faults_of_an_api_server() -> None:
    """Other profiles have none of them, and no cluster."""
    plan = draw_plan(1, profile=FaultProfile.API)
    assert plan.cluster
    assert {fault.kind for fault in plan.faults} & set(API)
    others = draw_plan(1)
    assert not others.cluster
    assert not any(fault.kind.name.startswith(("API_", "WATCH_")) for fault in others.faults)


def test_a_run_with_a_cluster_is_a_function_of_its_plan() -> None:
    """To the last line of its log."""
    plan = draw_plan(3, seconds=30, profile=FaultProfile.API)
    assert run_plan(plan).log == run_plan(plan).log
