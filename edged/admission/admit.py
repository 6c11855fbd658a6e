"""Decides whether this node takes a pod, or refuses it for good and says why.

A scheduler has usually asked the same questions; but pods that name their node themselves, static pods, and pods that
were placed while nobody could know the node's state come unasked. Reasons are a kubelet's, because controllers and
people read them.

Only pods that are new to the node are asked: whoever ran here before is not turned out because of a label (kubelet
looks at labels and taints at the beginning of a pod only).
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from edged.admission.node_selector import pod_fits_node
from edged.admission.room import lacking, taken_port
from edged.admission.sysctls import forbidden_sysctl
from edged.admission.tolerations import untolerated
from edged.api import Node, NodeStatus, Pod, parse_quantity
from edged.pods.verdict import Verdict

CONFIG_SOURCE = "kubernetes.io/config.source"
"""Annotation that says where a static pod came from."""


class Place(Struct, frozen=True):
    """What a pod finds on this node."""

    name: str
    allocatable: Mapping[str, Fraction] = {}
    """Amounts in base units; empty while the node has not been looked at."""
    node: Node | None = None
    """The node as the cloud knows it, with labels and taints; None while it has not said so."""
    unsafe_sysctls: tuple[str, ...] = ()
    """Kernel parameters that pods may set beside the safe ones."""


def allocatable(status: NodeStatus) -> dict[str, Fraction]:
    """What pods may use of a node, in base units."""
    return {name: parse_quantity(quantity) for name, quantity in status.allocatable.items()}


def refusal(pod: Pod, others: Sequence[Pod], place: Place) -> Verdict | None:
    """Why the pod may not run here; None when it may.

    Args:
        pod: it is new.
        others: the pods that are here and have not ended.
    """
    if pod.spec.os is not None and pod.spec.os.name not in ("", "linux"):
        return _refuse("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    sysctl = forbidden_sysctl(pod, place.unsafe_sysctls)
    if sysctl is not None:
        return _refuse("SysctlForbidden", sysctl)
    short = lacking(pod, others, place.allocatable)
    if short is not None:
        return _refuse(f"OutOf{short[0]}", short[1])
    port = taken_port(pod, others)
    if port is not None:
        return _refuse("NodePorts", f"Predicate NodePorts failed: port {port[2]}/{port[1]} of the node is taken")
    return _refused_by_cloud(pod, place) if place.node is not None else None


def _refused_by_cloud(pod: Pod, place: Place) -> Verdict | None:
    """What only the node's object in the cloud says. A static pod tolerates every taint."""
    if place.node is None:
        return None
    if not pod_fits_node(pod, place.name, place.node.metadata.labels):
        message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        return _refuse("NodeAffinity", message)
    taint = untolerated(place.node.spec.taints, pod.spec.tolerations)
    if taint is not None and CONFIG_SOURCE not in pod.metadata.annotations:
        message = f"Predicate TaintToleration failed: the pod does not tolerate the taint {taint.key}:{taint.effect}"
        return _refuse("TaintToleration", message)
    return None


def _refuse(reason: str, message: str) -> Verdict:
    return Verdict(reason, f"Pod was rejected: {message}", refused=True)
