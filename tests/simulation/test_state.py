"""Faults of what cloudcore keeps of nodes beside the API server of a cluster."""

import pytest

from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.draw_state import STATE
from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.run import run_plan
from modules.lab.simulate.state_faults import DAMAGES
from modules.lab.simulate.state_objects import DAMAGES as OBJECT_DAMAGES
from tests.support.slow import one_in

_STEPS = (
    *(WorkloadStep(float(at), f"pod-0-{at}", Shape.PLAIN) for at in range(2, 60, 6)),
    WorkloadStep(20.0, "pod-0-2", Shape.PLAIN, revision=0),
)


def test_each_fault_of_the_state_is_felt() -> None:
    """The log says what has happened to cloudcore; in the end all agree."""
    faults = (
        Fault(12.0, FaultKind.STATE_OLDER, 0, 12.0),
        Fault(30.0, FaultKind.STATE_LOST, 0, 2.0),
        Fault(40.0, FaultKind.STATE_DAMAGED, 0, 1.0),
        Fault(50.0, FaultKind.TAKEN_OVER, 0, 8.0, 3.0),
    )
    result = run_plan(Plan(seed=1, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=True))
    assert result.violation is None
    log = "\n".join(f"{entry.who}: {entry.what}" for entry in result.log if entry.who in ("cloud", "second"))
    for what in ("cloud: life 4 begins", "cloud: cluster_syncs: version", "second: life 1 begins", "second: killed"):
        assert what in log


def test_no_damaged_row_stops_a_node_or_a_pod() -> None:
    """Each damage, one after the other, in a row of the node that is connected."""
    faults = tuple(
        Fault(15.0 + 5.0 * number, FaultKind.STATE_DAMAGED, 0, 0.5, number) for number in range(len(DAMAGES))
    )
    result = run_plan(Plan(seed=1, nodes=1, seconds=110.0, steps=_STEPS, faults=faults, cluster=True))
    assert result.violation is None
    assert sum(entry.what.startswith("cluster_") for entry in result.log) == len(DAMAGES)


def test_the_state_may_be_in_the_cluster() -> None:
    """One NodeState for each node, without a database: it is lost, old, damaged, and taken by another cloudcore."""
    faults = (
        Fault(12.0, FaultKind.STATE_OLDER, 0, 12.0),
        Fault(30.0, FaultKind.STATE_LOST, 0, 2.0),
        *(Fault(40.0 + number, FaultKind.STATE_DAMAGED, 0, 0.5, number) for number in range(len(OBJECT_DAMAGES))),
        Fault(55.0, FaultKind.TAKEN_OVER, 0, 8.0, 3.0),
    )
    plan = Plan(seed=1, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=True, keeps_state=True)
    result = run_plan(plan)
    assert result.violation is None
    log = [f"{entry.who}: {entry.what}" for entry in result.log if entry.who in ("api", "cloud", "second")]
    assert sum(line.startswith("cloud: nodestates: ") for line in log) == len(OBJECT_DAMAGES)
    assert any("POST" in line and "nodestates" in line for line in log)
    assert any("PUT" in line and "nodestates/node-0" in line for line in log)


def test_a_damaged_file_is_refused_and_its_deletion_costs_no_pod() -> None:
    """The first page says what the file is; without it nothing can be read."""
    faults = (Fault(30.0, FaultKind.STATE_FILE_DAMAGED, 0, 1.0, 0.0),)
    plan = Plan(seed=1, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=True)
    result = run_plan(plan)
    assert result.violation is None
    (refused,) = [entry.what for entry in result.log if entry.what.startswith("cannot start")]
    assert "cloud.db" in refused
    assert run_plan(plan).log == result.log, "a run is a function of its plan"


@pytest.mark.parametrize("cluster", [False, True], ids=["embedded", "cluster"])
@pytest.mark.parametrize("kind", [FaultKind.DATABASE_FAILS, FaultKind.DATABASE_LOSES_ANSWERS])
@pytest.mark.parametrize("share", one_in(2, [0.3, 1.0]))
def test_a_database_that_fails_for_a_while_costs_nothing(kind: FaultKind, share: float, *, cluster: bool) -> None:
    """Transactions cannot begin, or are committed and their answers are lost; the objects may be in it, too."""
    faults = (Fault(15.0, kind, 0, 20.0, share),)
    result = run_plan(Plan(seed=2, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=cluster))
    assert result.violation is None
    failed = [entry.at for entry in result.log if entry.who == "database"]
    assert failed
    assert all(15.0 <= at <= 35.0 for at in failed)


@pytest.mark.parametrize("keeps_state", [False, True], ids=["database", "in the cluster"])
def test_two_cloudcores_divide_their_duties_by_their_leases(*, keeps_state: bool) -> None:
    """Each sees the other's Lease; a killed one's expires."""
    faults = (Fault(10.0, FaultKind.TAKEN_OVER, 0, 40.0, 3.0),)
    plan = Plan(seed=1, nodes=1, seconds=70.0, steps=_STEPS, faults=faults, cluster=True, keeps_state=keeps_state)
    result = run_plan(plan)
    assert result.violation is None
    notes = [(entry.at, entry.what) for entry in result.log if entry.who == "leases"]
    both = "cloud-1, second-1"
    assert {what for at, what in notes if at < 50.0} >= {f"{name} takes for alive: {both}" for name in both.split(", ")}
    assert notes[-1][1] == "cloud-1 takes for alive: cloud-1"


def test_nodes_go_back_to_a_cloudcore_when_another_could_not_start() -> None:
    """The other one has begun to accept connections when its database fails, ends, and is started again and again."""
    faults = (Fault(12.0, FaultKind.DATABASE_FAILS, 0, 12.0, 1.0), Fault(14.0, FaultKind.TAKEN_OVER, 0, 25.0, 3.0))
    result = run_plan(Plan(seed=1, nodes=1, seconds=50.0, steps=_STEPS, faults=faults, cluster=True, uploads=3.0))
    log = [f"{entry.who}: {entry.what}" for entry in result.log if entry.who == "second"]
    assert log.count("second: cannot start: its database fails") > 1
    assert result.violation is None


def test_the_profile_draws_faults_of_the_state() -> None:
    """In a cluster; other profiles have no such faults."""
    plan = draw_plan(1, profile=FaultProfile.STATE)
    assert plan.cluster
    assert {fault.kind for fault in plan.faults} & set(STATE)
    assert [draw_plan(seed, profile=FaultProfile.STATE).keeps_state for seed in (2, 3)] == [False, True]
    assert not any(fault.kind.name.startswith("STATE_") for fault in draw_plan(1, profile=FaultProfile.API).faults)
