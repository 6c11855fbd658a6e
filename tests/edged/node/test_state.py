"""The state of the node that its parts read."""

from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.devices.manager import DeviceManager
from edged.devices.model import DeviceCapacity
from edged.devices.pod_devices import Checkpoint
from edged.eviction_api.signals import Pressure
from edged.node.state import NODE_SHUTDOWN_NOT_READY, LocalNode
from modules.apimachinery.types import Node, NodeStatus, ObjectMeta
from tests.edged.node.test_status import REPORT


@pytest.fixture
def node(tmp_path: Path) -> LocalNode:
    return LocalNode(DeviceManager(Simulation(1).clock, tmp_path / "devices", Checkpoint(), lambda: None))


def test_nothing_is_known_before_the_machine_was_read(node: LocalNode) -> None:
    node.set_pressures(frozenset({Pressure.MEMORY}))
    assert (node.report(), node.status(), node.allocatable(), node.state.addresses) == (None, NodeStatus(), {}, ())


def test_the_state_is_the_machines_with_what_others_have_added(node: LocalNode) -> None:
    node.set_report(REPORT)
    node.set_node(registered=None, known=Node(status=NodeStatus(capacity={"example.com/dongle": "4"})))
    assert node.state.addresses == REPORT.machine.addresses
    assert (node.status().capacity["cpu"], node.status().capacity["example.com/dongle"]) == ("2", "4")
    assert (node.allocatable()["cpu"], node.allocatable()["example.com/dongle"]) == (Fraction(2), Fraction(4))


def test_a_report_has_the_pressures_and_the_shutdown_of_this_moment(node: LocalNode) -> None:
    """A shutdown is told beside a runtime that has been stopped for it."""
    away = replace(REPORT, runtime_problem="away")
    node.set_report(away)
    node.set_pressures(frozenset({Pressure.DISK}))
    assert node.report() == replace(away, pressures=frozenset({Pressure.DISK}))
    node.set_shutting_down(imminent=True)
    report = node.report()
    assert report is not None
    assert (report.runtime_problem, report.shutdown_problem) == ("away", NODE_SHUTDOWN_NOT_READY)
    node.set_shutting_down(imminent=False)
    node.set_pressures(frozenset())
    assert node.report() == away


def test_what_follows_is_computed_once_for_each_state_and_its_devices(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new pod asks. A plug-in may come or go while the state stays."""
    node.set_report(REPORT)
    first = node.status()
    assert node.status() is first
    assert node.allocatable() is node.allocatable()
    assert node.report() is node.report()
    known = Node(metadata=ObjectMeta(labels={"a": "b"}), status=NodeStatus(phase="Running"))
    node.set_node(registered=None, known=known)
    first = node.status()
    assert first.phase == "Running"
    node.set_node(registered=None, known=replace(known, metadata=ObjectMeta()))
    assert node.status() is first, "only labels have changed"
    monkeypatch.setattr(DeviceManager, "capacity", lambda _self: {"example.com/dongle": DeviceCapacity(3, 2)})
    assert node.status().capacity["example.com/dongle"] == "3"
    assert node.allocatable()["example.com/dongle"] == Fraction(2)
    monkeypatch.undo()
    assert "example.com/dongle" not in node.status().capacity
    node.set_pressures(frozenset({Pressure.DISK}))
    assert node.status() != first
