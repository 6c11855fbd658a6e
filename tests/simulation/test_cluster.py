"""The simulated cluster: cloudcore as the client of an API server, and each fault between the two."""

import re

import pytest

from modules.lab.simulate.api_faults import API_FAULTS
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.draw_api import API
from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.run import run_plan

_STEPS = tuple(WorkloadStep(float(at), f"pod-0-{at}", Shape.PLAIN) for at in range(2, 60, 6))


def _plan(*faults: Fault) -> Plan:
    return Plan(seed=1, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=True)


_FELT = {
    FaultKind.API_AWAY: (0.0, r"refused: "),
    FaultKind.API_UNREACHABLE: (0.0, r"no answer to "),
    FaultKind.API_SLOW: (10.0, r"20\d after [1-9][.\d]* s to "),
    FaultKind.API_CUT: (1.0, r"breaks before "),
    FaultKind.API_LOSES_ANSWERS: (1.0, r"<- (POST|PATCH|PUT) "),
    FaultKind.API_BUSY: (1.0, r"429 to "),
    FaultKind.API_FAILS: (1.0, r"500 to "),
    FaultKind.WATCH_CUT: (1.0, r"breaks within an event: GET .* \(watch\)$"),
    FaultKind.WATCH_SILENT: (0.0, r"silent from now on: GET .* \(watch\)$"),
    FaultKind.API_COMPACTS: (1.0, r"<- GET /api/v1/pods$"),
    FaultKind.API_RESTART: (0.0, r"life 2 begins"),
    FaultKind.API_RESTORED: (10.0, r"restored to version "),
}
"""Amount of each fault, and the line that it leaves in the log while it lasts."""


@pytest.mark.parametrize("kind", API_FAULTS, ids=lambda kind: kind.name)
def test_each_fault_of_an_api_server_is_felt_and_survived(kind: FaultKind) -> None:
    """The API server does what the fault says, from its beginning on; in the end all agree."""
    amount, pattern = _FELT[kind]
    result = run_plan(_plan(Fault(25.0, kind, 0, 8.0, amount)))
    assert result.violation is None
    times = [entry.at for entry in result.log if entry.who == "api" and re.search(pattern, entry.what)]
    assert [at for at in times if 25.0 <= at <= 45.0]


def test_a_lost_answer_is_asked_for_again() -> None:
    """A patch is carried out several times, and does no harm."""
    result = run_plan(_plan(Fault(7.0, FaultKind.API_LOSES_ANSWERS, 0, 6.0, 1.0)))
    assert result.violation is None
    patches = [one for one in result.log if one.what == "<- PATCH /api/v1/namespaces/default/pods/pod-0-8/status"]
    assert len(patches) > 1


def test_the_profile_draws_faults_of_an_api_server() -> None:
    """Other profiles have no such faults, and no cluster."""
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
