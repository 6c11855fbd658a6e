"""The present state of this node."""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from edged.devices.manager import DeviceManager
from edged.eviction_api.signals import Pressure
from edged.node.status import NodeReport, allocatable_amounts, node_status
from modules.apimachinery.types import Nanoseconds, Node, NodeStatus

NODE_SHUTDOWN_NOT_READY = "node is shutting down"
"""Message of the condition Ready while the machine shuts down (kubelet)."""


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


class LocalNode:
    """Holds the `NodeState`. Written by the `NodeReporter` only, read by any part on any thread.

    Args:
        devices: the devices of the node, which are part of each report.
    """

    def __init__(self, devices: DeviceManager) -> None:
        self._devices = devices
        self.state = NodeState()

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
        """Return the last report with the devices and pressures of this moment; None while there is no report."""
        state = self.state
        if state.report is None:
            return None
        problem = NODE_SHUTDOWN_NOT_READY if state.is_shutting_down else state.report.runtime_problem
        devices = self._devices.capacity()
        return replace(state.report, devices=devices, pressures=state.pressures, runtime_problem=problem)

    def status(self) -> NodeStatus:
        """Return the node's status of this moment; an empty one while there is no report."""
        report = self.report()
        return node_status(report, self._known_status(), Nanoseconds(0)) if report is not None else NodeStatus()

    def allocatable(self) -> Mapping[str, Fraction]:
        """Return the resources for pods in base units, by name; empty while there is no report."""
        report = self.report()
        return allocatable_amounts(report, self._known_status()) if report is not None else {}

    def _known_status(self) -> NodeStatus:
        known = self.state.known
        return known.status if known is not None else NodeStatus()
