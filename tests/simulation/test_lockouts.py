"""Nodes that an administrator locks out, and lets in again."""

import pytest

from modules.cloud.client.calls import Answered, ApiCall, ApiResult
from modules.cloud.edgecontroller.upstream.node_calls import NodeCalls
from modules.cloud.identities import known
from modules.lab.simulate import run
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.network import CloudEndpoint
from modules.lab.simulate.plan import Fault, FaultKind, Plan
from modules.lab.simulate.run import run_plan

_LOCKED = Fault(20.0, FaultKind.LOCKED_OUT, 0, 30.0)


@pytest.mark.parametrize("profile", ["cloud", "api", "state"])
def test_a_node_is_locked_out_among_faults(profile: str) -> None:
    plan = draw_plan(6_300_104, seconds=120.0, pods=1, nodes=2, profile=FaultProfile(profile), lockouts=True)
    assert {fault.amount for fault in plan.faults if fault.kind is FaultKind.LOCKED_OUT} == {0.0, 1.0}
    result = run_plan(plan)
    assert result.violation is None, result.violation


def test_connections_that_outlive_a_revocation_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_may_refuse", lambda *_: False)
    plan = Plan(1, 1, 60.0, (), (_LOCKED,))
    violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == "a node that is locked out has no connection"
    monkeypatch.setattr(CloudEndpoint, "connected_to", lambda *_: None)
    violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == "nothing of a node that is locked out is accepted"


def test_an_allowance_that_is_decided_by_a_late_mirror_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch does not report the revocation, so that there seems to be none that could be ended."""
    silent = Fault(15.0, FaultKind.WATCH_SILENT, 0, 60.0)
    plan = Plan(1, 1, 90.0, (), (silent, _LOCKED), cluster=True)
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 150.0)
    assert run_plan(plan).violation is None
    perform = NodeCalls.perform

    def from_the_mirror(calls: NodeCalls, call: ApiCall, answered: Answered, node: str) -> None:
        mirrored = calls._mirrored(calls._kind_of(call), call, node) if call.verb == "get" else None
        if mirrored is None:
            perform(calls, call, answered, node)
        else:
            answered(ApiResult(mirrored))

    monkeypatch.setattr(NodeCalls, "perform", from_the_mirror)
    violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == "all agree in the end"
