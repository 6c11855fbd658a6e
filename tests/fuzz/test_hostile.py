"""The hostile node would be noticed: with a part of the gate away, the fuzzer finds it within some cases."""

from collections.abc import Callable
from typing import Any

import pytest

from modules.cloudhub import routing
from modules.edgecontroller.authorization.gate import Gate
from modules.edgecontroller.authorization.restriction import refusal
from modules.edgecontroller.module import EdgeController
from tests.fuzz.campaign import attempt
from tests.fuzz.targets import TARGETS

_ENOUGH = 120
"""Cases; each takes some milliseconds."""


def found() -> bool:
    """Whether one of so many cases is a finding."""
    target = TARGETS["hostile-node"]
    seeds = target.seeds()
    return any(attempt(target, *target.case(5, number, seeds)) for number in range(_ENOUGH))


def _admits_all(_gate: Gate, _node: str) -> Callable[[Any, Any], None]:
    return lambda _old, _new: None


@pytest.mark.parametrize("part", ["authorizer", "restriction", "mirror pods"])
def test_a_gate_with_a_hole_is_found(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """What a node could read or write through it, it does."""
    if part == "authorizer":
        monkeypatch.setattr(Gate, "pass_through", lambda _gate, _asked: None)
    elif part == "restriction":
        monkeypatch.setattr(Gate, "admission", _admits_all)
    else:
        monkeypatch.setattr(
            "modules.edgecontroller.authorization.gate.refusal",
            lambda node, old, new, graph: "" if old is None else refusal(node, old, new, graph),
        )
    assert found()


def test_a_border_with_a_hole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose every word is handed on, from whom it says, reaches the commands inside."""
    monkeypatch.setattr(routing, "_is_allowed", lambda *_: True)
    monkeypatch.setattr("modules.cloudhub.module.on_node", lambda message, _node: message)
    monkeypatch.setattr(EdgeController, "_note_holder", lambda *_: None)
    assert found()
