"""Services that nodes follow while people change them and the node groups, and the node's part of their endpoints."""

import msgspec
import pytest

from modules.cloud.controllers import node_group
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.node_groups import NodeGroupFilter
from modules.edge.metaserver.stale_objects import StaleObjects
from modules.lab.simulate import run
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.plan import Fault, FaultKind, Plan, RolloutStep, ServiceStep, Write, Writer
from modules.lab.simulate.run import run_plan


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter time for nodes and cloud to agree: a bug that was put in is found after it."""
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 150.0)


@pytest.mark.parametrize("profile", ["link", "process", "cloud", "api", "state"])
def test_each_node_has_the_endpoints_of_its_group_in_the_end(profile: str) -> None:
    plan = draw_plan(3_000_000, nodes=2, seconds=120.0, pods=1, profile=FaultProfile(profile), services=True)
    assert len(plan.services) > 1
    assert {(step.name, step.is_ranged) for step in plan.services} >= {("shop", True), ("shop", False), ("bank", True)}
    assert any(write.writer is Writer.NODE_GROUP for write in plan.writes)
    result = run_plan(plan)
    assert result.violation is None, result.violation


@pytest.mark.usefixtures("patience")
def test_endpoints_that_are_not_sent_again_with_the_topology_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Service keeps to node groups, in which one of its nodes is not; the slice does not change."""
    steps = (ServiceStep(1.0, (0, 1)), ServiceStep(20.0, (0, 1), is_ranged=True))
    plan = msgspec.structs.replace(Plan(1, 1, 40.0, (), ()), services=steps)
    assert run_plan(plan).violation is None
    monkeypatch.setattr(DownstreamController, "_regroup", lambda *_: None)
    violation = run_plan(plan).violation
    assert violation is not None
    assert "EndpointSlice shop-1 has" in violation.text


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(("at", "invariant"), [(20.0, "all agree in the end"), (105.0, "endpoints are right soon")])
def test_neighbours_of_a_node_that_moves_to_another_group_who_keep_its_endpoint_are_found(
    monkeypatch: pytest.MonkeyPatch, at: float, invariant: str
) -> None:
    """Without faults for long, within seconds."""
    plan = Plan(1, 2, at + 20.0, (), (), writes=(Write(at, "node-0", Writer.NODE_GROUP, 1),))
    plan = msgspec.structs.replace(plan, services=(ServiceStep(1.0, (0, 1), is_ranged=True),))
    assert run_plan(plan).violation is None
    monkeypatch.setattr(NodeGroupFilter, "on_node", lambda *_: [])
    violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == invariant
    assert "node-1: EndpointSlice shop-1 has" in violation.text


@pytest.mark.usefixtures("patience")
def test_a_node_that_keeps_the_label_of_a_node_group_which_it_has_left_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = (Write(20.0, "node-0", Writer.NODE_GROUP, 1), Write(30.0, "node-0", Writer.NODE_GROUP, 2))
    plan = Plan(1, 1, 40.0, (), (), writes=writes, rollouts=(RolloutStep(1.0, "DaemonSet"),))
    plan = msgspec.structs.replace(plan, services=(ServiceStep(1.0, (0,), is_ranged=True),))
    assert run_plan(plan).violation is None
    monkeypatch.setattr(node_group, "_left", lambda *_: [])
    violation = run_plan(plan).violation
    assert violation is not None
    assert "node-0 is labelled as of group 'group-1', and should be of 'group-2'" in violation.text


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(
    ("cluster", "writes", "faults"),
    [
        (True, (Write(30.0, "node-0", Writer.NODE_DELETED),), (Fault(20.0, FaultKind.CUT, seconds=30.0),)),
        (True, (), (Fault(20.0, FaultKind.STATE_LOST, seconds=30.0),)),
        (
            False,
            (Write(30.0, "node-0", Writer.NODE_DELETED),),
            (Fault(5.0, FaultKind.CLOUD_RESTART, seconds=3.0), Fault(20.0, FaultKind.CUT, seconds=30.0)),
        ),
        (False, (Write(30.0, "node-0", Writer.NODE_DELETED),), (Fault(20.0, FaultKind.CUT, seconds=30.0),)),
    ],
    ids=["Node deleted", "records lost", "Node deleted without a cluster", "Node deleted before the first restart"],
)
def test_objects_whose_end_a_cloud_without_records_does_not_tell_are_found(
    monkeypatch: pytest.MonkeyPatch, *, cluster: bool, writes: tuple[Write, ...], faults: tuple[Fault, ...]
) -> None:
    """They end as the node compares them with the cloud's."""
    kinds = ("Service", "EndpointSlice", "Endpoints")
    steps = (
        ServiceStep(1.0, (0,)),
        ServiceStep(2.0, (0,), name="bank"),
        ServiceStep(35.0, (), name="bank", without=kinds),
    )
    plan = Plan(1, 1, 60.0, (), faults, writes=writes, cluster=cluster)
    plan = msgspec.structs.replace(plan, services=steps)
    assert run_plan(plan).violation is None
    monkeypatch.setattr(StaleObjects, "end", lambda *_: None)
    violation = run_plan(plan).violation
    assert violation is not None
    assert "bank is left over" in violation.text
