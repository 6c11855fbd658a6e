"""What is told of the node's life, in a kubelet's sentences; what has changed in its conditions is a pure function."""

from collections.abc import Iterator, Mapping, Sequence

from edged.api import NodeCondition, NodeStatus
from edged.events.model import EventType
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder

_WORDS: Mapping[tuple[str, str], Reason] = {
    ("Ready", "True"): Reason.NODE_READY,
    ("Ready", "False"): Reason.NODE_NOT_READY,
    ("MemoryPressure", "True"): Reason.NODE_HAS_INSUFFICIENT_MEMORY,
    ("MemoryPressure", "False"): Reason.NODE_HAS_SUFFICIENT_MEMORY,
    ("DiskPressure", "True"): Reason.NODE_HAS_DISK_PRESSURE,
    ("DiskPressure", "False"): Reason.NODE_HAS_NO_DISK_PRESSURE,
    ("PIDPressure", "True"): Reason.NODE_HAS_INSUFFICIENT_PID,
    ("PIDPressure", "False"): Reason.NODE_HAS_SUFFICIENT_PID,
}


def turns(before: Sequence[NodeCondition], now: Sequence[NodeCondition]) -> Iterator[Reason]:
    """A word for each condition that is another than before; one that was not there before counts."""
    known = {condition.type: condition.status for condition in before}
    for condition in now:
        word = _WORDS.get((condition.type, condition.status))
        if word is not None and known.get(condition.type) != condition.status:
            yield word


class NodeEvents:
    """See the module's docstring."""

    def __init__(self, recorder: EventRecorder, node: str) -> None:
        self._recorder = recorder
        self._node = node
        self._told: tuple[NodeCondition, ...] = ()

    def starting(self) -> None:
        """edged starts (kubelet's birth cry)."""
        self._recorder.record_node(EventType.NORMAL, Reason.STARTING, "Starting edged.")

    def found(self, before: NodeStatus, boot_id: str) -> None:
        """The cloud knows the node: what it last heard of it; the machine has been rebooted since when its boot id is
        another one.
        """
        self._told = before.conditions
        known = before.node_info.boot_id
        if known and boot_id and known != boot_id:
            message = f"Node {self._node} has been rebooted, boot id: {boot_id}"
            self._recorder.record_node(EventType.WARNING, Reason.REBOOTED, message)

    def conditions(self, now: tuple[NodeCondition, ...]) -> None:
        """The node's conditions are these."""
        for word in turns(self._told, now):
            self._recorder.record_node(EventType.NORMAL, word, f"Node {self._node} status is now: {word}")
        self._told = now
