"""A Service that nodes follow while people change it, and the node's part of its endpoints in the end."""

import msgspec
import pytest

from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.plan import Plan, ServiceStep
from modules.lab.simulate.run import run_plan


@pytest.mark.parametrize("profile", ["none", "link", "process", "cloud", "api", "state"])
def test_each_node_has_the_endpoints_of_its_group_in_the_end(profile: str) -> None:
    plan = draw_plan(3_000_000, nodes=2, seconds=120.0, pods=1, profile=FaultProfile(profile), services=True)
    assert len(plan.services) > 1
    assert {step.is_ranged for step in plan.services} == {True, False}
    result = run_plan(plan)
    assert result.violation is None, result.violation


def test_endpoints_that_are_not_sent_again_with_the_topology_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Service keeps to node groups, in which one of its nodes is not; the slice does not change."""
    steps = (ServiceStep(1.0, (0, 1)), ServiceStep(20.0, (0, 1), is_ranged=True))
    plan = msgspec.structs.replace(Plan(1, 1, 40.0, (), ()), services=steps)
    assert run_plan(plan).violation is None
    monkeypatch.setattr(DownstreamController, "_regroup", lambda *_: None)
    violation = run_plan(plan).violation
    assert violation is not None
    assert "EndpointSlice shop-1 has" in violation.text
