"""The node's status and labels: pure functions of a report.

Names, reasons and messages of conditions are a kubelet's; Ready's are KubeEdge's (`EdgeReady`), as its cloud shows it.
"""

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from edged.devices.model import DeviceCapacity
from edged.eviction_api.signals import Pressure, Signal
from edged.eviction_api.thresholds import EvictionSettings
from edged.node.machine import MachineFacts
from edged.node.ownership import with_foreign_conditions, with_foreign_resources
from modules.apimachinery.extended_resources import foreign_resources
from modules.apimachinery.types import (
    Nanoseconds,
    Node,
    NodeAddress,
    NodeCondition,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    Quantity,
    Time,
    format_quantity,
    format_time,
    parse_quantity,
)
from modules.apimachinery.types.nodes import ContainerImage, DaemonEndpoint, NodeDaemonEndpoints, NodeSpec, Taint


class NodeReport(msgspec.Struct, frozen=True):
    """Everything that a node's status is computed from."""

    machine: MachineFacts
    node_name: str
    max_pods: int
    port: int
    agent_version: str
    proxy_version: str = ""
    """Of what answers for Services on the node; empty without."""
    runtime_version: str = ""
    """`containerd://1.6.20`; empty while the runtime has not answered."""
    runtime_problem: str = ""
    """Why the runtime is not ready; empty when it is."""
    network_problem: str = ""
    images: tuple[ContainerImage, ...] = ()
    reserved: Mapping[str, Fraction] = {}
    """Resources that are not for pods, in base units (kubeReserved and systemReserved together)."""
    eviction: EvictionSettings = EvictionSettings()
    """Thresholds; resources that hard ones keep free are not allocatable."""
    pressures: frozenset[Pressure] = frozenset()
    """Pressures on the node's resources."""
    volumes_in_use: tuple[str, ...] = ()
    """Unique names of attachable volumes; the cloud does not detach them meanwhile."""
    devices: Mapping[str, DeviceCapacity] = {}
    """Devices of device plug-ins, by resource."""


ANNOTATIONS = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
"""Annotations that a kubelet sets."""

_ROLES = {"node-role.kubernetes.io/agent": "", "node-role.kubernetes.io/edge": ""}


def registration_labels(machine: MachineFacts, node_name: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a KubeEdge node at its registration; `extra` has precedence."""
    return {**own_labels(machine, node_name, {}), **_ROLES, **extra}


def own_labels(machine: MachineFacts, node_name: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the node keeps correct: the ones of a kubelet, and the configured ones. The role
    labels are not among them: an administrator may remove them.
    """
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": node_name,
        "kubernetes.io/os": "linux",
        **extra,
    }


def node_object(
    report: NodeReport,
    extra_labels: Mapping[str, str],
    now: Nanoseconds,
    *,
    taints: tuple[Taint, ...] = (),
    schedulable: bool = True,
) -> Node:
    """Return the Node object to register. Only a new node gets taints, as with a kubelet."""
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    if not schedulable and all((taint.key, taint.effect) != (cordon.key, cordon.effect) for taint in taints):
        taints = (*taints, cordon)
    return Node(
        metadata=ObjectMeta(
            name=report.node_name,
            labels=registration_labels(report.machine, report.node_name, extra_labels),
            annotations=ANNOTATIONS,
        ),
        spec=NodeSpec(unschedulable=not schedulable, taints=taints),
        status=node_status(report, NodeStatus(), now),
    )


def node_status(report: NodeReport, old: NodeStatus, now: Nanoseconds, *, own_port: bool = True) -> NodeStatus:
    """Return the present status of a node that the cloud shows as `old`.

    Fields that the node does not decide are as in `old`: conditions of others, resources that were patched in, attached
    volumes, the phase; so are transition times of conditions that have not changed.

    Args:
        report: facts of the node.
        old: the status in the cloud.
        now: the wall clock, for heartbeats and transitions.
        own_port: whether the report has the kubelet's port. A cloud that serves the node's tunnel puts its
            own in its place, which then stays.
    """
    machine = report.machine
    capacity = _formatted(
        {
            **_resources(report, memory=machine.memory, storage=machine.storage, cpu=machine.cpus),
            **machine.huge_pages,
            **{name: device.capacity for name, device in report.devices.items()},
        }
    )
    allocatable = _formatted(_own_allocatable(report))
    endpoints = NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=max(0, report.port)))
    return NodeStatus(
        capacity=with_foreign_resources(capacity, old.capacity, old.capacity),
        allocatable=with_foreign_resources(allocatable, old.allocatable, old.capacity),
        phase=old.phase,
        conditions=with_foreign_conditions(_conditions(report, old, now), old.conditions),
        addresses=(
            *(NodeAddress(type="InternalIP", address=address) for address in machine.addresses),
            NodeAddress(type="Hostname", address=report.node_name),
        ),
        daemon_endpoints=endpoints if own_port else old.daemon_endpoints,
        node_info=NodeSystemInfo(
            machine_id=machine.machine_id,
            system_uuid=machine.system_uuid,
            boot_id=machine.boot_id,
            kernel_version=machine.kernel,
            os_image=machine.os_image,
            container_runtime_version=report.runtime_version,
            kubelet_version=report.agent_version,
            kube_proxy_version=report.proxy_version,
            operating_system="linux",
            architecture=machine.architecture,
        ),
        images=report.images,
        volumes_in_use=report.volumes_in_use,
        volumes_attached=old.volumes_attached,
    )


def allocatable_amounts(report: NodeReport, old: NodeStatus) -> dict[str, Fraction]:
    """Return the amounts of `node_status`'s allocatable in base units, for a node that the cloud shows as `old`."""
    own = {name: Fraction(amount) for name, amount in _own_allocatable(report).items()}
    foreign = {name: parse_quantity(amount) for name, amount in foreign_resources(own, old.capacity).items()}
    return {**own, **foreign}


def node_status_has_changed(new: NodeStatus, sent: NodeStatus | None) -> bool:
    """Return whether a status differs from the last one sent in more than heartbeat times."""
    return sent is None or _without_heartbeats(new) != _without_heartbeats(sent)


def _less(report: NodeReport, resource: str, amount: int) -> int:
    """Return an amount less the reservations."""
    return max(0, int(amount - report.reserved.get(resource, 0)))


def _own_allocatable(report: NodeReport) -> dict[str, Fraction | int]:
    """Return the amounts of the node's own resources and devices that are for pods, in base units. No other memory can
    be in huge pages.
    """
    machine, eviction = report.machine, report.eviction
    memory = machine.memory - sum(machine.huge_pages.values()) - eviction.reserve(Signal.MEMORY, machine.memory)
    storage = machine.storage - eviction.reserve(Signal.NODE_FS, machine.storage)
    return {
        **_resources(
            report,
            memory=_less(report, "memory", memory),
            storage=_less(report, "ephemeral-storage", storage),
            cpu=max(0, machine.cpus - report.reserved.get("cpu", 0)),
        ),
        **{name: _less(report, name, amount) for name, amount in machine.huge_pages.items()},
        **{name: device.allocatable for name, device in report.devices.items()},
    }


def _resources(report: NodeReport, *, memory: int, storage: int, cpu: Fraction | int) -> dict[str, Fraction | int]:
    """Return amounts in base units; memory in whole Ki."""
    return {"cpu": cpu, "ephemeral-storage": storage, "memory": memory // 1024 * 1024, "pods": report.max_pods}


def _formatted(amounts: Mapping[str, Fraction | int]) -> dict[str, Quantity]:
    """Write amounts as a node's status has them: CPU in the shortest notation, memory in Ki, all else as a number."""
    return {name: _quantity(name, amount) for name, amount in amounts.items()}


def _quantity(name: str, amount: Fraction | int) -> Quantity:
    if name == "cpu":
        return format_quantity(amount)
    return f"{int(amount) // 1024}Ki" if name == "memory" else str(int(amount))


def _conditions(report: NodeReport, old: NodeStatus, now: Nanoseconds) -> tuple[NodeCondition, ...]:
    memory_low, disk_low, pids_low = (p in report.pressures for p in (Pressure.MEMORY, Pressure.DISK, Pressure.PIDS))
    problem = report.runtime_problem or report.network_problem
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


def _without_heartbeats(status: NodeStatus) -> NodeStatus:
    conditions = tuple(msgspec.structs.replace(c, last_heartbeat_time=None) for c in status.conditions)
    return msgspec.structs.replace(status, conditions=conditions)
