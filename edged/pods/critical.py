"""Which pods the node does not end for its own sake (kubelet's IsCriticalPod)."""

from typing import Final

from edged.api import Pod

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Annotation that says where a static pod came from."""
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of what stands for a static pod in the cloud."""
_SYSTEM_CRITICAL: Final = 2_000_000_000
"""Priority of `system-cluster-critical`; `system-node-critical` has more."""


def is_critical(pod: Pod) -> bool:
    """Static pods, and those with the priority of system components."""
    notes = pod.metadata.annotations
    return CONFIG_SOURCE in notes or CONFIG_MIRROR in notes or (pod.spec.priority or 0) >= _SYSTEM_CRITICAL
