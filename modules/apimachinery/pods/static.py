"""Static pods and their mirrors, by their annotations (kubelet's IsStaticPod and IsMirrorPod)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from modules.apimachinery.types import Pod

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Annotation with a static pod's source."""
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod, a static pod's copy in the cloud."""


def is_static(pod: Pod) -> bool:
    """Return whether a pod came from a file of this machine."""
    return CONFIG_SOURCE in pod.metadata.annotations and not is_mirror(pod)


def is_mirror(pod: Pod) -> bool:
    """Return whether a pod is the mirror of a static pod, which is not run."""
    return CONFIG_MIRROR in pod.metadata.annotations
