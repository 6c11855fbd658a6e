"""Which pods the node does not end for its own sake (kubelet's IsCriticalPod)."""

from typing import Final

from edged.api import Pod

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Annotation that says where a static pod came from."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_SYSTEM_CRITICAL: Final = 2_000_000_000
"""Priority of `system-cluster-critical`; `system-node-critical` has more."""


def is_critical(pod: Pod) -> bool:
    """Static pods, and those with the priority of system components."""
    notes = pod.metadata.annotations
    return CONFIG_SOURCE in notes or _MIRROR in notes or (pod.spec.priority or 0) >= _SYSTEM_CRITICAL
