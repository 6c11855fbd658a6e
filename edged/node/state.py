"""The present state of this node."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from edged.devices.manager import DeviceManager
from edged.devices.model import DeviceCapacity
from edged.eviction_api.signals import Pressure
from edged.node.status import NodeReport, allocatable_amounts, node_status
from modules.apimachinery.types import Nanoseconds, Node, NodeStatus

NODE_SHUTDOWN_NOT_READY = "node is shutting down"
"""Message of the condition Ready while the machine shuts down (kubelet)."""
_UNKNOWN: Final = NodeStatus()


class NodeState(Struct, frozen=True):
    """The state of this node. Replaced as a whole, so that any thread may read it."""

    report: NodeReport | None = None
    """Machine and runtime as they were inspected last; None while the machine's facts cannot be read."""
    registered: Node | None = None
    """The Node object as the cloud has it; None while the node is not registered."""
    known: Node | None = None
    """The Node object as the cloud or the store has sent it last, with this node's own labels."""
    pressures: frozenset[Pressure] = frozenset()
    """Pressures on the node's resources."""
    is_shutting_down: bool = False
    """Whether the machine is about to shut down."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the node, the primary one first; empty before the first report."""
        return self.report.machine.addresses if self.report is not None else ()


class _Facts(Struct, frozen=True):
    """Facts that follow from a report and the status in the cloud; of nothing before the first report."""

    report: NodeReport | None
    old: NodeStatus
    status: NodeStatus = NodeStatus()
    allocatable: Mapping[str, Fraction] = {}


class LocalNode:
    """The `NodeState` of this node. Written by the `NodeReporter` only, read by any part on any thread.

    Args:
        devices: the devices of the node, which are part of each report.
    """

    def __init__(self, devices: DeviceManager) -> None:
        self._devices = devices
        self.state = NodeState()
        self._reported: tuple[Any, NodeReport | None] = None, None
        """The last report, behind what it was made of."""
        self._last = _Facts(None, _UNKNOWN)

    def set_report(self, report: NodeReport) -> None:
        """Set the report of the machine and the runtime."""
        self.state = replace(self.state, report=report)

    def set_node(self, *, registered: Node | None, known: Node | None) -> None:
        """Set the Node object, see `NodeState`."""
        self.state = replace(self.state, registered=registered, known=known)

    def set_pressures(self, pressures: frozenset[Pressure]) -> None:
        """Set the pressures on the node's resources."""
        self.state = replace(self.state, pressures=pressures)

    def set_shutting_down(self, *, imminent: bool) -> None:
        """Set whether the machine is about to shut down."""
        self.state = replace(self.state, is_shutting_down=imminent)

    def report(self) -> NodeReport | None:
        """Return the last report with the devices and pressures of this moment; None while there is no report. It is
        the same object until something of it changes.
        """
        state, devices, (known, report) = self.state, self._devices.capacity(), self._reported
        parts = state.report, state.pressures, state.is_shutting_down, devices
        if parts != known:
            report = _report(state, devices)
            self._reported = parts, report
        return report

    def status(self) -> NodeStatus:
        """Return the node's status of this moment; an empty one while there is no report."""
        return self._facts().status

    def allocatable(self) -> Mapping[str, Fraction]:
        """Return the resources for pods in base units, by name; empty while there is no report."""
        return self._facts().allocatable

    def _facts(self) -> _Facts:
        """Return what follows from the report and the Node's status in the cloud, which is asked for each new pod: the
        last if neither has changed.
        """
        known, report, last = self.state.known, self.report(), self._last
        old = known.status if known is not None else _UNKNOWN
        if last.report is not report or last.old is not old:
            last = _Facts(report, old)
            if report is not None:
                status, allocatable = node_status(report, old, Nanoseconds(0)), allocatable_amounts(report, old)
                last = _Facts(report, old, status, allocatable)
            self._last = last
        return last


def _report(state: NodeState, devices: Mapping[str, DeviceCapacity]) -> NodeReport | None:
    if state.report is None:
        return None
    problem = NODE_SHUTDOWN_NOT_READY if state.is_shutting_down else ""
    return replace(state.report, devices=devices, pressures=state.pressures, shutdown_problem=problem)
