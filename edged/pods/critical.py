"""Critical pods, which the node never ends for its own sake (kubelet's IsCriticalPod)."""

from typing import Final

from modules.apimachinery.pods.static import CONFIG_MIRROR, CONFIG_SOURCE
from modules.apimachinery.types import Pod

_SYSTEM_CRITICAL: Final = 2_000_000_000
"""Priority of `system-cluster-critical`; `system-node-critical` has more."""


def is_critical(pod: Pod) -> bool:
    """Return whether a pod is static, or has the priority of a system component."""
    notes = pod.metadata.annotations
    return CONFIG_SOURCE in notes or CONFIG_MIRROR in notes or (pod.spec.priority or 0) >= _SYSTEM_CRITICAL
