"""Which conditions of a pod the node decides; every other one is its writer's (kubelet's PodConditionByKubelet)."""

from typing import Final

from modules.apimachinery.types import PodStatus

READY_TO_START: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
SCHEDULED: Final = "PodScheduled"
HELD: Final = "HeldUpgrade"
"""Whether a pod waits for a release by the owner of the node (KubeEdge's)."""
OURS: Final = frozenset({READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, HELD})

DISRUPTION_TARGET: Final = "DisruptionTarget"
BY_A_NODE: Final = "TerminationByKubelet"
"""Reason of DisruptionTarget (Kubernetes' PodReasonTerminationByKubelet)."""


def is_ours(kind: str, reason: str) -> bool:
    """Return whether a node decides a condition of a type and a reason. DisruptionTarget is the node's where it ends
    the pod for its own sake.
    """
    return kind in OURS or (kind == DISRUPTION_TARGET and reason == BY_A_NODE)


def is_ready(status: PodStatus) -> bool:
    """Return whether a pod is ready."""
    for each in status.conditions:
        if each.type == READY:
            return each.status == "True"
    return False
