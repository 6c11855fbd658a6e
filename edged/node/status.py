"""The node's status and labels: pure functions of a report."""

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from edged.devices.model import DeviceCapacity
from edged.eviction_api.signals import Pressure
from edged.eviction_api.thresholds import EvictionSettings
from edged.node.allocatable import Amounts, allocatable, capacity
from edged.node.conditions import node_conditions
from edged.node.machine import MachineFacts
from edged.node.ownership import with_foreign_conditions, with_foreign_resources
from modules.apimachinery.extended_resources import foreign_resources
from modules.apimachinery.types import (
    Nanoseconds,
    Node,
    NodeAddress,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    Quantity,
    format_quantity,
    parse_quantity,
)
from modules.apimachinery.types.nodes import (
    ContainerImage,
    DaemonEndpoint,
    NodeDaemonEndpoints,
    NodeRuntimeHandler,
    NodeSpec,
    Taint,
)


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
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    runtime_problem: str = ""
    """Why the runtime is not ready; empty when it is."""
    network_problem: str = ""
    shutdown_problem: str = ""
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
    has, for_pods = _formatted(capacity(machine, report.devices, report.max_pods)), _formatted(_own_allocatable(report))
    problems = [each for each in (report.runtime_problem, report.network_problem, report.shutdown_problem) if each]
    conditions = node_conditions(report.pressures, problems, old, now)
    endpoints = NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=max(0, report.port)))
    return NodeStatus(
        capacity=with_foreign_resources(has, old.capacity, old.capacity),
        allocatable=with_foreign_resources(for_pods, old.allocatable, old.capacity),
        phase=old.phase,
        conditions=with_foreign_conditions(conditions, old.conditions),
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
        runtime_handlers=report.runtime_handlers,
    )


def allocatable_amounts(report: NodeReport, old: NodeStatus) -> dict[str, Fraction]:
    """Return the amounts of `node_status`'s allocatable in base units, for a node that the cloud shows as `old`."""
    own = {name: Fraction(amount) for name, amount in _own_allocatable(report).items()}
    foreign = {name: parse_quantity(amount) for name, amount in foreign_resources(own, old.capacity).items()}
    return {**own, **foreign}


def node_status_has_changed(new: NodeStatus, sent: NodeStatus | None) -> bool:
    """Return whether a status differs from the last one sent in more than heartbeat times."""
    return sent is None or _without_heartbeats(new) != _without_heartbeats(sent)


def _own_allocatable(report: NodeReport) -> Amounts:
    return allocatable(report.machine, report.devices, report.max_pods, report.reserved, report.eviction)


def _formatted(amounts: Amounts) -> dict[str, Quantity]:
    """Write amounts as a node's status has them: CPU in the shortest notation, memory in Ki, all else as a number."""
    return {name: _quantity(name, amount) for name, amount in amounts.items()}


def _quantity(name: str, amount: Fraction | int) -> Quantity:
    if name == "cpu":
        return format_quantity(amount)
    return f"{int(amount) // 1024}Ki" if name == "memory" else str(int(amount))


def _without_heartbeats(status: NodeStatus) -> NodeStatus:
    conditions = tuple(msgspec.structs.replace(c, last_heartbeat_time=None) for c in status.conditions)
    return msgspec.structs.replace(status, conditions=conditions)
