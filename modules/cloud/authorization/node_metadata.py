"""The labels and annotations that a node may not write: others, or the cloud, decide by them.

The labels are Kubernetes' (NodeRestriction, `kubelet_apis.IsKubeletLabel`), KubeEdge's two roles, and less
KubeEdge's node group. Kubernetes restricts no annotations; docs/security.md has those that cloudcore decides by.
"""

from collections.abc import Callable
from typing import Final

from modules.apimachinery.kinds import JsonObject

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
EVICT_AFTER: Final = ("edgecore.io/evict-after", "node.openyurt.io/autonomy-duration")
"""Annotations of a Node: how long it may be silent before controllers make its pods elsewhere (`30m`). The second one
is OpenYurt's."""
_LABELS: Final = frozenset(
    {
        HOSTNAME,
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        ZONE,
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node-role.kubernetes.io/edge",
        "node-role.kubernetes.io/agent",
    }
)
"""Labels of Kubernetes that a node may set on itself (kubelet's), and KubeEdge's two."""
_LABEL_NAMESPACES: Final = (".kubelet.kubernetes.io", ".node.kubernetes.io")
_RESERVED: Final = (".kubernetes.io", ".k8s.io", ".apps.kubeedge.io")
_RESERVED_OF_PODS: Final = (".kubernetes.io", ".k8s.io", ".kubeedge.io", ".edgecore.io")


def forbidden_labels(before: JsonObject, after: JsonObject) -> list[str]:
    """Return the labels of a Node that differ and that no node may set, change or take away, sorted."""
    return _changed(before, after, _is_reserved_label)


def forbidden_annotations(before: JsonObject, after: JsonObject) -> list[str]:
    """Return the annotations of a Node that differ and that no node may set, change or take away, sorted."""
    return _changed(before, after, lambda name: name in EVICT_AFTER)


def forbidden_pod_annotations(before: JsonObject, after: JsonObject) -> list[str]:
    """Return the annotations of a bound pod that differ and that no node may set, change or take away, sorted: its
    controller decides by them, as by the index of a Job's pod.
    """
    return _changed(before, after, lambda name: _is_in(name, _RESERVED_OF_PODS))


def _changed(before: JsonObject, after: JsonObject, is_reserved: Callable[[str], bool]) -> list[str]:
    changed = [key for key in {*before, *after} if before.get(key) != after.get(key)]
    return sorted(key for key in changed if is_reserved(key))


def _is_reserved_label(label: str) -> bool:
    return _is_in(label, _RESERVED) and label not in _LABELS and not _is_in(label, _LABEL_NAMESPACES)


def _is_in(name: str, namespaces: tuple[str, ...]) -> bool:
    namespace, slash, _ = name.partition("/")
    return bool(slash) and f".{namespace}".endswith(namespaces)
