"""Events of the node, in kubelet's words."""

from collections.abc import Iterator, Mapping, Sequence

from edged.events.model import EventType
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder
from modules.apimachinery.types import NodeCondition, NodeStatus

_REASONS: Mapping[tuple[str, str], Reason] = {
    ("Ready", "True"): Reason.NODE_READY,
    ("Ready", "False"): Reason.NODE_NOT_READY,
    ("MemoryPressure", "True"): Reason.NODE_HAS_INSUFFICIENT_MEMORY,
    ("MemoryPressure", "False"): Reason.NODE_HAS_SUFFICIENT_MEMORY,
    ("DiskPressure", "True"): Reason.NODE_HAS_DISK_PRESSURE,
    ("DiskPressure", "False"): Reason.NODE_HAS_NO_DISK_PRESSURE,
    ("PIDPressure", "True"): Reason.NODE_HAS_INSUFFICIENT_PID,
    ("PIDPressure", "False"): Reason.NODE_HAS_SUFFICIENT_PID,
}


def condition_changes(before: Sequence[NodeCondition], now: Sequence[NodeCondition]) -> Iterator[Reason]:
    """Yield the reason of each condition whose status differs from before; a new condition counts."""
    known = {condition.type: condition.status for condition in before}
    for condition in now:
        reason = _REASONS.get((condition.type, condition.status))
        if reason is not None and known.get(condition.type) != condition.status:
            yield reason


class NodeEvents:
    """The recorder of events of the node."""

    def __init__(self, recorder: EventRecorder, node: str) -> None:
        self._recorder = recorder
        self._node = node
        self._known: tuple[NodeCondition, ...] = ()

    def starting(self) -> None:
        """Record that edged starts (kubelet's birth cry)."""
        self._recorder.record_node(EventType.NORMAL, Reason.STARTING, "Starting edged.")

    def node_known(self, before: NodeStatus, boot_id: str) -> None:
        """Take the node's last status from the cloud, and record a reboot since then (another boot id)."""
        self._known = before.conditions
        known = before.node_info.boot_id
        if known and boot_id and known != boot_id:
            message = f"Node {self._node} has been rebooted, boot id: {boot_id}"
            self._recorder.record_node(EventType.WARNING, Reason.REBOOTED, message)

    def conditions_changed(self, now: tuple[NodeCondition, ...]) -> None:
        """Record the conditions that have changed."""
        for reason in condition_changes(self._known, now):
            self._recorder.record_node(EventType.NORMAL, reason, f"Node {self._node} status is now: {reason}")
        self._known = now
