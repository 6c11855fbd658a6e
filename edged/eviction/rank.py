"""The order in which pods are evicted (kubelet's rank functions, eviction/helpers.go). Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from edged.eviction_api.signals import Signal
from edged.eviction_api.usage import DiskConsumption, PodUsage
from modules.apimachinery.pods.demand import pod_requests
from modules.apimachinery.types import Pod

Usages = Mapping[str, PodUsage]
"""The usage of pods, by uid."""


class _Candidate(msgspec.Struct, frozen=True):
    pod: Pod
    used: int | None
    """Of the resource that is short; None if unknown."""
    requested: int


_Criterion = Callable[[_Candidate], int]
"""Returns less for the pod that goes first."""


def _unmeasured(candidate: _Candidate) -> int:
    """Pods of unknown usage before others."""
    return candidate.used is not None


def _exceeds_request(candidate: _Candidate) -> int:
    """Pods above their requests before others."""
    return candidate.used is not None and candidate.used <= candidate.requested


def _priority(candidate: _Candidate) -> int:
    """Lower priorities before higher ones."""
    return candidate.pod.spec.priority or 0


def _usage(candidate: _Candidate) -> int:
    """Pods further above their requests before others."""
    return 0 if candidate.used is None else candidate.requested - candidate.used


_BY_REQUESTS: Final = (_unmeasured, _exceeds_request, _priority, _usage)
_BY_PROCESSES: Final = (_priority, _unmeasured, _usage)
"""A pod requests no processes."""


def ranked(pods: Iterable[Pod], usages: Usages, signal: Signal, *, image_fs_apart: bool) -> list[Pod]:
    """Return the pods in the order of eviction.

    Args:
        pods: the candidates.
        usages: their usage.
        signal: the resource that is short.
        image_fs_apart: whether the images' file system, with the writable layers, is another than the pods'
            directory.
    """
    measure, resource = _measure(signal, image_fs_apart=image_fs_apart), _REQUESTS.get(signal)
    criteria: tuple[_Criterion, ...] = _BY_PROCESSES if signal is Signal.PIDS else _BY_REQUESTS

    def order(pod: Pod) -> list[int]:
        requested = 0 if resource is None else int(pod_requests(pod).get(resource, 0))
        candidate = _Candidate(pod, measure(usages.get(pod.metadata.uid)), requested)
        return [criterion(candidate) for criterion in criteria]

    return sorted(pods, key=order)


def _measure(signal: Signal, *, image_fs_apart: bool) -> Callable[[PodUsage | None], int | None]:
    """Return a function that returns a pod's usage of the signal's resource; None if unknown."""
    inodes = signal in (Signal.NODE_INODES, Signal.IMAGE_INODES)
    of_images = signal in (Signal.IMAGE_FS, Signal.IMAGE_INODES)

    def measure(usage: PodUsage | None) -> int | None:
        if usage is None:
            return None
        if signal is Signal.PIDS:
            return usage.processes or 0
        if signal is Signal.MEMORY:
            return usage.memory
        amount = usage.storage
        if image_fs_apart:
            amount = usage.layers if of_images else _less(usage.storage, usage.layers)
        return amount.inodes if inodes else amount.size

    return measure


_REQUESTS = {
    Signal.MEMORY: "memory",
    Signal.NODE_FS: "ephemeral-storage",
    Signal.IMAGE_FS: "ephemeral-storage",
}
"""The resource requests of each signal; inodes cannot be requested."""


def _less(whole: DiskConsumption, part: DiskConsumption) -> DiskConsumption:
    return DiskConsumption(max(0, whole.size - part.size), max(0, whole.inodes - part.inodes))
