"""What the node says of itself, as pure functions of the machine, the runtime and what is left.

Names, reasons and messages of conditions are a kubelet's; Ready's are KubeEdge's (`EdgeReady`), as its cloud shows it.
"""

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from edged.api import (
    Nanoseconds,
    Node,
    NodeAddress,
    NodeCondition,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    OwnerReference,
    Quantity,
    format_quantity,
    format_time,
)
from edged.api.leases import Lease, LeaseSpec
from edged.api.nodes import ContainerImage, DaemonEndpoint, NodeDaemonEndpoints, NodeSpec, Taint
from edged.api.times import format_micro_time
from edged.devices.model import Share
from edged.eviction.signals import Pressure, Signal
from edged.eviction.thresholds import EvictionSettings
from edged.node.machine import Machine
from edged.node.ownership import with_foreign_conditions, with_foreign_resources

LEASE_NAMESPACE = "kube-node-lease"

RENEWAL = 5 / 16
"""Part of a lease's duration after which it is renewed. A kubelet does so after a quarter; but a renewal with its
answer and the acknowledgement of that is 1.5 KB, most of what an idle node sends. Of three renewals in a row two may
still be lost before the cloud, which waits for 40 s (`--node-monitor-grace-period`), gives the node up.
"""


class Report(msgspec.Struct, frozen=True):
    """Everything a node status is computed from."""

    machine: Machine
    node_name: str
    max_pods: int
    port: int
    agent_version: str
    runtime_version: str = ""
    """`containerd://1.6.20`; empty while the runtime has not answered."""
    runtime_problem: str = ""
    """Why the runtime is not ready; empty when it is."""
    network_problem: str = ""
    images: tuple[ContainerImage, ...] = ()
    reserved: Mapping[str, Fraction] = {}
    """What is kept for others than pods, in base units (kubeReserved and systemReserved together)."""
    eviction: EvictionSettings = EvictionSettings()
    """What hard thresholds keep free is not allocatable."""
    pressures: frozenset[Pressure] = frozenset()
    """Conditions that the evictor sees."""
    volumes_in_use: tuple[str, ...] = ()
    """Unique names of attachable volumes; the cloud does not detach them meanwhile."""
    devices: Mapping[str, Share] = {}
    """What device plug-ins provide, by resource."""


ANNOTATIONS = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
"""The annotations of a kubelet's own."""

_ROLES = {"node-role.kubernetes.io/agent": "", "node-role.kubernetes.io/edge": ""}


def labels(machine: Machine, node_name: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The labels a KubeEdge node registers with; `extra` wins."""
    return {**own_labels(machine, node_name, {}), **_ROLES, **extra}


def own_labels(machine: Machine, node_name: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The labels whose values the node alone decides: those that a kubelet reconciles, and the configured ones. A role
    is the administrator's to take away.
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
    report: Report,
    extra_labels: Mapping[str, str],
    now: Nanoseconds,
    *,
    taints: tuple[Taint, ...] = (),
    schedulable: bool = True,
) -> Node:
    """The object with which the node registers. Taints are given to a new node only, as with a kubelet."""
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    spec = NodeSpec(taints=taints) if schedulable else NodeSpec(unschedulable=True, taints=(*taints, cordon))
    return Node(
        metadata=ObjectMeta(
            name=report.node_name,
            labels=labels(report.machine, report.node_name, extra_labels),
            annotations=ANNOTATIONS,
        ),
        spec=spec,
        status=node_status(report, NodeStatus(), now),
    )


def node_status(report: Report, old: NodeStatus, now: Nanoseconds, *, anew: bool = True) -> NodeStatus:
    """The status now, for a node that the cloud shows as `old`.

    What the node does not decide itself is as it was in `old`: others' conditions, resources that somebody patched in,
    attached volumes, the phase. So are transition times where nothing changed.

    Args:
        anew: whether the port is this node's own. KubeEdge's cloudstream writes its tunnel's in the place of what the
            node has registered with, and that one stays.
    """
    machine, eviction = report.machine, report.eviction
    memory = machine.memory - eviction.reserve(Signal.MEMORY, machine.memory)
    storage = machine.storage - eviction.reserve(Signal.NODE_FS, machine.storage)
    capacity = {
        **_resources(report, memory=machine.memory, storage=machine.storage, cpu=Fraction(machine.cpus)),
        **{name: str(share.capacity) for name, share in report.devices.items()},
    }
    allocatable = {
        **_resources(
            report,
            memory=_less(report, "memory", memory),
            storage=_less(report, "ephemeral-storage", storage),
            cpu=max(Fraction(0), machine.cpus - report.reserved.get("cpu", Fraction(0))),
        ),
        **{name: str(share.allocatable) for name, share in report.devices.items()},
    }
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
        daemon_endpoints=endpoints if anew or not old.daemon_endpoints.kubelet_endpoint.port else old.daemon_endpoints,
        node_info=NodeSystemInfo(
            machine_id=machine.machine_id,
            system_uuid=machine.system_uuid,
            boot_id=machine.boot_id,
            kernel_version=machine.kernel,
            os_image=machine.os_image,
            container_runtime_version=report.runtime_version,
            kubelet_version=report.agent_version,
            kube_proxy_version="",
            operating_system="linux",
            architecture=machine.architecture,
        ),
        images=report.images,
        volumes_in_use=report.volumes_in_use,
        volumes_attached=old.volumes_attached,
    )


def worth_sending(new: NodeStatus, sent: NodeStatus | None) -> bool:
    """Whether a status says anything that the one sent before did not: heartbeat times do not count."""
    return sent is None or _without_heartbeats(new) != _without_heartbeats(sent)


def new_lease(node: Node, seconds: int, now: Nanoseconds) -> Lease:
    """The lease of a node that has registered, owned by it so that it goes with it."""
    name = node.metadata.name
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(_owner(node),)),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=seconds, renew_time=format_micro_time(now)),
    )


def renewed(lease: Lease, node: Node, seconds: int, now: Nanoseconds) -> Lease:
    """The same lease, held for another `seconds` from now on. One of an earlier object of the node goes over to this
    one, or it would be collected with that.

    Without what the API server does not take from an update anyway: it is sent seven thousand times a day.
    """
    spec = msgspec.structs.replace(lease.spec, lease_duration_seconds=seconds, renew_time=format_micro_time(now))
    owners = lease.metadata.owner_references
    if any(owner.kind == "Node" and owner.uid != node.metadata.uid for owner in owners):
        owners = (_owner(node),)
    metadata = msgspec.structs.replace(lease.metadata, uid="", creation_timestamp=None, owner_references=owners)
    return msgspec.structs.replace(lease, metadata=metadata, spec=spec)


def _owner(node: Node) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)


def _less(report: Report, resource: str, amount: int) -> int:
    """What is left of an amount when the reservations are taken from it."""
    return max(0, int(amount - report.reserved.get(resource, Fraction(0))))


def _resources(report: Report, *, memory: int, storage: int, cpu: Fraction) -> dict[str, Quantity]:
    return {
        "cpu": format_quantity(cpu),
        "ephemeral-storage": str(storage),
        "memory": f"{memory // 1024}Ki",
        "pods": str(report.max_pods),
    }


def _conditions(report: Report, old: NodeStatus, now: Nanoseconds) -> tuple[NodeCondition, ...]:
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
    return tuple(_condition(old, now, *fields) for fields in wanted)


def _pressure(low: str, enough: str, what: str, is_low: bool) -> tuple[str, str]:
    if is_low:
        return f"KubeletHas{low}", f"kubelet has insufficient {what} available"
    return f"KubeletHas{enough}", f"kubelet has sufficient {what} available"


def _disk(is_low: bool) -> tuple[str, str]:
    if is_low:
        return "KubeletHasDiskPressure", "kubelet has disk pressure"
    return "KubeletHasNoDiskPressure", "kubelet has no disk pressure"


def _condition(
    old: NodeStatus,
    now: Nanoseconds,
    kind: str,
    holds: bool,
    reason: str,
    message: str,
) -> NodeCondition:
    before = next((condition for condition in old.conditions if condition.type == kind), None)
    status = "True" if holds else "False"
    changed = before is None or before.status != status
    return NodeCondition(
        type=kind,
        status=status,
        last_heartbeat_time=format_time(now),
        last_transition_time=format_time(now) if changed or before is None else before.last_transition_time,
        reason=reason,
        message=message,
    )


def _without_heartbeats(status: NodeStatus) -> NodeStatus:
    conditions = tuple(msgspec.structs.replace(c, last_heartbeat_time=None) for c in status.conditions)
    return msgspec.structs.replace(status, conditions=conditions)
