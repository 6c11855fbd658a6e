"""The fuzzer finds each gap within some cases when a part of the access control is removed."""

from collections.abc import Callable
from typing import Any

import pytest

from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.node_restriction import refusal
from modules.cloud.cloudhub import routing
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from tests.fuzz.campaign import attempt
from tests.fuzz.targets import TARGETS

_ENOUGH = 120
"""Number of cases; each takes some milliseconds."""


def found() -> bool:
    """Return whether one of the cases is a finding."""
    target = TARGETS["hostile-node"]
    seeds = target.seeds()
    return any(attempt(target, *target.case(5, number, seeds)) for number in range(_ENOUGH))


def _admits_all(_gate: AccessControl, _node: str) -> Callable[[Any, Any], None]:
    return lambda _old, _new: None


@pytest.mark.parametrize("part", ["authorizer", "restriction", "mirror pods"])
def test_a_gate_with_a_hole_is_found(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """The hostile node reads or writes through the gap."""
    if part == "authorizer":
        monkeypatch.setattr(AccessControl, "authorize", lambda _gate, _asked: None)
    elif part == "restriction":
        monkeypatch.setattr(AccessControl, "admission", _admits_all)
    else:
        monkeypatch.setattr(
            "modules.cloud.authorization.access_control.refusal",
            lambda node, old, new, graph: "" if old is None else refusal(node, old, new, graph),
        )
    assert found()


def test_a_border_with_a_hole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose messages pass unchecked, with any source, reaches internal commands."""
    monkeypatch.setattr(routing, "_is_allowed", lambda *_: True)
    monkeypatch.setattr("modules.cloud.cloudhub.module.on_node", lambda message, _node: message)
    monkeypatch.setattr(DownstreamController, "record_query", lambda *_: None)
    assert found()
