"""Pods that wait for a release by the owner of the node (KubeEdge's `edge.kubeedge.io/hold-upgrade`).

A workload that is rolled out with this annotation starts on a node only when its owner says so, such as when a machine
stands still. KubeEdge holds back a pod whose phase is Pending; here a pod that has a sandbox or a container has begun,
and is never held again.
"""

from typing import Final

import msgspec

from edged.pods.model import PodFacts
from edged.pods.pod_status.phase import Phase
from modules.apimachinery.pods.static import is_static
from modules.apimachinery.types import Pod

ANNOTATION: Final = "edge.kubeedge.io/hold-upgrade"
OWNER: Final = "owner"
"""`route.source` of a release, which comes from no link."""
RESOURCE: Final = "edged/release"


class Release(msgspec.Struct, frozen=True):
    """The content of a release: a pod, or all that wait."""

    namespace: str = ""
    name: str = ""
    """Empty for all pods."""


class Released(msgspec.Struct, frozen=True):
    """The answer."""

    pods: list[str]
    """NAMESPACE/NAME of those that are released."""
    is_known: bool = True
    """Whether the pod is on this node."""


def asks_for_release(pod: Pod, facts: PodFacts) -> bool:
    """Return whether a pod has to be released before it begins."""
    return (
        pod.metadata.annotations.get(ANNOTATION) == "true"
        and pod.status.phase in ("", Phase.PENDING)
        and not has_begun(facts)
        and not is_static(pod)
    )


def has_begun(facts: PodFacts) -> bool:
    """Return whether the runtime has something of a pod."""
    return bool(facts.sandboxes or facts.containers)
