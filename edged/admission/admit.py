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
from edged.admission.tolerations import tolerates, untolerated
from edged.api import Node, NodeStatus, Pod, Taint, parse_quantity
from edged.eviction.signals import Pressure
from edged.pods.critical import CONFIG_SOURCE, is_critical
from edged.pods.qos import QosClass, qos_class
from edged.pods.verdict import Verdict
from edged.volumes.usage import EVICTED

MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
"""What the cloud puts on a node that is short of memory."""


class Place(Struct, frozen=True):
    """What a pod finds on this node."""

    name: str
    allocatable: Mapping[str, Fraction] = {}
    """Amounts in base units; empty while the node has not been looked at."""
    node: Node | None = None
    """The node as the cloud knows it, with labels and taints; None while it has not said so."""
    unsafe_sysctls: tuple[str, ...] = ()
    """Kernel parameters that pods may set beside the safe ones."""
    pressures: frozenset[Pressure] = frozenset()
    """What the node is short of."""
    shuts_down: bool = False
    """Whether the machine is about to."""


def allocatable(status: NodeStatus) -> dict[str, Fraction]:
    """What pods may use of a node, in base units."""
    return {name: parse_quantity(quantity) for name, quantity in status.allocatable.items()}


def refusal(pod: Pod, others: Sequence[Pod], place: Place) -> Verdict | None:
    """Why the pod may not run here; None when it may.

    Args:
        pod: it is new.
        others: the pods that are here and have not ended.
    """
    if place.shuts_down:
        return _refuse("NodeShutdown", "Pod was rejected as the node is shutting down.")
    if is_kept_out(pod, place.pressures):
        return _refuse(EVICTED, f"The node had condition: [{' '.join(sorted(place.pressures))}]. ")
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
    return refusal_by_node(pod, place)


def refusal_by_node(pod: Pod, place: Place) -> Verdict | None:
    """The same, as far as only the Node object says it, by labels and taints. A static pod tolerates every taint."""
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


def is_kept_out(pod: Pod, pressures: frozenset[Pressure]) -> bool:
    """Whether a new pod would make things worse (kubelet's eviction manager as an admission handler).

    Critical ones are taken. Short of memory alone, so are those that ask for some, and those that say that they stand
    it; short of disk or processes, nobody else.
    """
    if not pressures or is_critical(pod):
        return False
    if pressures != {Pressure.MEMORY}:
        return True
    return qos_class(pod) is QosClass.BEST_EFFORT and not tolerates(MEMORY_TAINT, pod.spec.tolerations)


def _refuse(reason: str, message: str) -> Verdict:
    return Verdict(reason, f"Pod was rejected: {message}", refused=True)
