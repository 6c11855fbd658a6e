"""Decides whether this node admits a pod, or rejects it for good: pure functions.

The scheduler has usually decided the same. But it never sees static pods and pods that name their node themselves, and
it may not have known the node's present state. Reasons are a kubelet's, because controllers and people read them. Only
new pods are checked: a pod that ran here before is not ended because of a label (kubelet checks labels and taints only
when a pod starts).

A pod may set the harmless sysctls that stay in its own namespaces. A parameter without a namespace would change the
node for every pod; a runtime rejects some of them only. The list of safe ones is Kubernetes'; others are allowed by the
node's configuration (kubelet's sysctl allowlist).
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from msgspec import Struct

from edged.devices.rules import is_extended_resource
from edged.eviction_api.signals import Pressure
from edged.pods.config.security import requires_apparmor
from edged.pods.critical import is_critical
from edged.pods.kill_options import EVICTED, KillOptions
from edged.pods.taken_room import Demand, TakenRoom
from modules.apimachinery.pods.demand import pod_requests
from modules.apimachinery.pods.general_predicates import insufficient_amounts, used_port
from modules.apimachinery.pods.node_selector import pod_fits_node
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.pods.tolerations import tolerates, untolerated_taint
from modules.apimachinery.types import Node, Pod, Taint

_OS_LABEL = "kubernetes.io/os"
MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
"""Taint that the cloud adds to a node with memory pressure."""


class NodeInfo(Struct, frozen=True):
    """The state of the node that decides about a new pod (the scheduler framework's NodeInfo)."""

    name: str
    allocatable: Mapping[str, Fraction] = {}
    """Amounts in base units; empty before the first report of the node."""
    node: Node | None = None
    """The Node object with labels and taints; None before it is known."""
    unsafe_sysctls: tuple[str, ...] = ()
    """Kernel parameters that pods may set beside the safe ones."""
    pressures: frozenset[Pressure] = frozenset()
    """Pressures on the node."""
    is_shutting_down: bool = False
    """Whether the machine is about to shut down."""
    has_apparmor: bool = True
    """Whether the kernel has AppArmor."""


def refusal(pod: Pod, demand: Demand, taken: TakenRoom, node_info: NodeInfo) -> KillOptions | None:
    """Return why a pod is rejected; None when it is admitted.

    Args:
        pod: a new pod.
        demand: the room that it would take.
        taken: the room that the other pods of the node take.
        node_info: the node.
    """
    if node_info.is_shutting_down:
        return _refuse("NodeShutdown", "Pod was rejected as the node is shutting down.")
    if rejected_under_pressure(pod, node_info.pressures):
        return _refuse(EVICTED, f"The node had condition: [{' '.join(sorted(node_info.pressures))}]. ")
    if pod.metadata.labels.get(_OS_LABEL, "linux") != "linux":
        words = f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label"
        return _refuse("PodOSSelectorNodeLabelDoesNotMatch", words)
    if pod.spec.os is not None and pod.spec.os.name not in ("", "linux"):
        return _refuse("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    sysctl = forbidden_sysctl(pod, node_info.unsafe_sysctls)
    if sysctl is not None:
        return _refuse("SysctlForbidden", sysctl)
    short = next(insufficient_amounts(demand.requests, taken.used, node_info.allocatable), None)
    if short is not None:
        return _refuse(f"OutOf{short[0]}", short[1])
    other_node = _refusal_by_labels(pod, node_info)
    port = used_port(demand.ports, taken.ports)
    if other_node is None and port is not None:
        words = f"port {port[2]}/{port[1]} of the node is taken by {taken.pod_with(port, pod.metadata.namespace)}"
        return _refuse("NodePorts", f"Predicate NodePorts failed: {words}")
    refused = other_node or _refusal_by_taints(pod, node_info)
    if refused is None and not node_info.has_apparmor and requires_apparmor(pod):
        return _refuse("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")
    return refused


def refusal_by_node(pod: Pod, node_info: NodeInfo) -> KillOptions | None:
    """Return why the Node object rejects a pod: by labels, taints, or extended resources, which an administrator may
    have written into it; or None. A static pod tolerates every taint.
    """
    short = next(insufficient_amounts(pod_requests(pod), {}, node_info.allocatable), None)
    if short is not None and is_extended_resource(short[0]):
        return _refuse(f"OutOf{short[0]}", short[1])
    return _refusal_by_labels(pod, node_info) or _refusal_by_taints(pod, node_info)


def _refusal_by_labels(pod: Pod, node_info: NodeInfo) -> KillOptions | None:
    node = node_info.node
    if node is None or pod_fits_node(pod, node_info.name, node.metadata.labels):
        return None
    message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    return _refuse("NodeAffinity", message)


def _refusal_by_taints(pod: Pod, node_info: NodeInfo) -> KillOptions | None:
    taints = node_info.node.spec.taints if node_info.node is not None else ()
    taint = untolerated_taint(taints, pod.spec.tolerations)
    if taint is None or CONFIG_SOURCE in pod.metadata.annotations:
        return None
    message = f"Predicate TaintToleration failed: the pod does not tolerate the taint {taint.key}:{taint.effect}"
    return _refuse("TaintToleration", message)


def rejected_under_pressure(pod: Pod, pressures: frozenset[Pressure]) -> bool:
    """Return whether a pod is rejected because of pressures on the node (kubelet's eviction manager as an admission
    handler).

    Critical pods are admitted. Under memory pressure alone, so are pods that request memory, and pods that tolerate the
    taint; under disk or process pressure no other pod is.
    """
    if not pressures or is_critical(pod):
        return False
    if pressures != {Pressure.MEMORY}:
        return True
    return qos_class(pod) is QosClass.BEST_EFFORT and not tolerates(MEMORY_TAINT, pod.spec.tolerations)


def _refuse(reason: str, message: str) -> KillOptions:
    return KillOptions(reason, f"Pod was rejected: {message}", rejected=True)


SAFE = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""Kubernetes' safe sysctls."""

_OF_IPC = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_OF_NETWORK = ("net.",)


def forbidden_sysctl(pod: Pod, allowed: Iterable[str] = ()) -> str | None:
    """Return why a pod may not set one of its sysctls, in a kubelet's words; None when it may set all.

    Args:
        pod: the pod.
        allowed: names beside the safe ones, with dots or slashes; `kernel.msg*` stands for all with this prefix.
    """
    patterns = [pattern.replace("/", ".") for pattern in allowed]
    context = pod.spec.security_context
    for sysctl in context.sysctls if context is not None else ():
        name = sysctl.name.replace("/", ".")
        if name not in SAFE and not any(_matches(name, pattern) for pattern in patterns):
            return f'forbidden sysctl: "{sysctl.name}" not allowlisted'
        if pod.spec.host_network and name.startswith(_OF_NETWORK):
            return f'forbidden sysctl: "{sysctl.name}" not allowed with host Net enabled'
        if pod.spec.host_ipc and name.startswith(_OF_IPC):
            return f'forbidden sysctl: "{sysctl.name}" not allowed with host IPC enabled'
    return None


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
