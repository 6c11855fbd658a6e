"""The order of eviction (kubelet's rank functions). Pure.

Pods above their requests come before others, then lower priorities before higher ones, then pods further above their
requests before others. Pods of unknown usage come first.
"""

from collections.abc import Callable, Iterable, Mapping

from edged.api import Pod
from edged.eviction_api.signals import Signal
from edged.eviction_api.usage import DiskConsumption, PodUsage
from edged.pods.demand import pod_requests

Usages = Mapping[str, PodUsage]
"""The usage of pods, by uid."""


def ranked(pods: Iterable[Pod], usages: Usages, signal: Signal, *, image_fs_apart: bool) -> list[Pod]:
    """Return the pods in the order of eviction.

    Args:
        pods: the candidates.
        usages: their usage.
        signal: the resource that is short.
        image_fs_apart: whether the images' file system, with the writable layers, is not the one of the pods'
            directory.
    """
    if signal is Signal.PIDS:
        return sorted(pods, key=lambda pod: (_priority(pod), -_processes(usages.get(pod.metadata.uid))))
    measure = _measure(signal, image_fs_apart=image_fs_apart)
    return sorted(pods, key=lambda pod: _key(pod, measure(usages.get(pod.metadata.uid)), signal))


def _measure(signal: Signal, *, image_fs_apart: bool) -> Callable[[PodUsage | None], int | None]:
    """Return a function that returns a pod's usage of the signal's resource; None if unknown."""
    inodes = signal in (Signal.NODE_INODES, Signal.IMAGE_INODES)
    of_images = signal in (Signal.IMAGE_FS, Signal.IMAGE_INODES)

    def measure(usage: PodUsage | None) -> int | None:
        if usage is None or signal is Signal.MEMORY:
            return usage.memory if usage is not None else None
        amount = usage.storage
        if image_fs_apart:
            amount = usage.layers if of_images else _less(usage.storage, usage.layers)
        return amount.inodes if inodes else amount.size

    return measure


def _key(pod: Pod, used: int | None, signal: Signal) -> tuple[bool, bool, int, int]:
    if used is None:
        return False, False, _priority(pod), 0
    requested = int(pod_requests(pod).get(_REQUESTS.get(signal, ""), 0))
    return True, used <= requested, _priority(pod), requested - used


_REQUESTS = {
    Signal.MEMORY: "memory",
    Signal.NODE_FS: "ephemeral-storage",
    Signal.IMAGE_FS: "ephemeral-storage",
}
"""The resource requests of each signal; inodes cannot be requested."""


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _processes(usage: PodUsage | None) -> int:
    return usage.processes or 0 if usage is not None else 0


def _less(whole: DiskConsumption, part: DiskConsumption) -> DiskConsumption:
    return DiskConsumption(max(0, whole.size - part.size), max(0, whole.inodes - part.inodes))
