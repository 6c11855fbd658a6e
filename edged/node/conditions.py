"""The conditions of a node: Ready, and its pressures. Pure.

Names, reasons and messages are a kubelet's; Ready's are KubeEdge's (`EdgeReady`), as its cloud shows it.
"""

from collections.abc import Collection, Mapping, Sequence

from edged.eviction_api.signals import Pressure
from modules.apimachinery.types import Nanoseconds, NodeCondition, NodeStatus, Time, format_time


def node_conditions(
    pressures: Collection[Pressure], problems: Sequence[str], old: NodeStatus, now: Nanoseconds
) -> tuple[NodeCondition, ...]:
    """Return the conditions that a node reports. Their transition times stay while their status does.

    Args:
        pressures: those that the node is under.
        problems: why the node is not ready; empty when it is.
        old: the node's status in the cloud.
        now: the wall clock.
    """
    problem = f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems)  # kubelet's aggregated error
    memory_low, disk_low, pids_low = (each in pressures for each in (Pressure.MEMORY, Pressure.DISK, Pressure.PIDS))
    wanted = (
        (Pressure.MEMORY, memory_low, *_pressure("InsufficientMemory", "SufficientMemory", "memory", memory_low)),
        (Pressure.DISK, disk_low, *_disk(disk_low)),
        (Pressure.PIDS, pids_low, *_pressure("InsufficientPID", "SufficientPID", "PID", pids_low)),
        (
            "Ready",
            not problem,
            *(("EdgeNotReady", problem) if problem else ("EdgeReady", "edge is posting ready status")),
        ),
    )
    known, time = {condition.type: condition for condition in old.conditions}, format_time(now)
    return tuple([_condition(known, time, *fields) for fields in wanted])


def _pressure(low: str, enough: str, what: str, is_low: bool) -> tuple[str, str]:
    if is_low:
        return f"KubeletHas{low}", f"kubelet has insufficient {what} available"
    return f"KubeletHas{enough}", f"kubelet has sufficient {what} available"


def _disk(is_low: bool) -> tuple[str, str]:
    if is_low:
        return "KubeletHasDiskPressure", "kubelet has disk pressure"
    return "KubeletHasNoDiskPressure", "kubelet has no disk pressure"


def _condition(
    known: Mapping[str, NodeCondition], time: Time, kind: str, holds: bool, reason: str, message: str
) -> NodeCondition:
    before = known.get(kind)
    status = "True" if holds else "False"
    return NodeCondition(
        type=kind,
        status=status,
        last_heartbeat_time=time,
        last_transition_time=time if before is None or before.status != status else before.last_transition_time,
        reason=reason,
        message=message,
    )
