"""Whom an eviction meets first (kubelet's rank functions).

Who uses more than it asked for comes before who does not, a lower priority before a higher one, and who is further
above its requests before others. A pod of which nothing is known comes first: it may be the one. Pure.
"""

from collections.abc import Callable, Iterable, Mapping

from edged.api import Pod
from edged.eviction.consumption import Amount, PodUsage
from edged.eviction.signals import Signal
from edged.pods.demand import pod_requests

Usages = Mapping[str, PodUsage]
"""What pods use, by uid."""


def ranked(pods: Iterable[Pod], usages: Usages, signal: Signal, *, image_fs_apart: bool) -> list[Pod]:
    """The pods, the first to go first.

    Args:
        pods: that may go.
        usages: what they use.
        signal: what there is too little of.
        image_fs_apart: whether containers write to another file system than that of the pods' directory.
    """
    if signal is Signal.PIDS:
        return sorted(pods, key=lambda pod: (_priority(pod), -_processes(usages.get(pod.metadata.uid))))
    measure = _measure(signal, image_fs_apart=image_fs_apart)
    return sorted(pods, key=lambda pod: _key(pod, measure(usages.get(pod.metadata.uid)), signal))


def _measure(signal: Signal, *, image_fs_apart: bool) -> Callable[[PodUsage | None], int | None]:
    """What a pod uses of that of which there is too little; None: unknown."""
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
    asked = int(pod_requests(pod).get(_REQUESTS.get(signal, ""), 0))
    return True, used <= asked, _priority(pod), asked - used


_REQUESTS = {
    Signal.MEMORY: "memory",
    Signal.NODE_FS: "ephemeral-storage",
    Signal.IMAGE_FS: "ephemeral-storage",
}
"""What pods ask for of what they use; inodes cannot be asked for."""


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _processes(usage: PodUsage | None) -> int:
    return usage.processes or 0 if usage is not None else 0


def _less(whole: Amount, part: Amount) -> Amount:
    return Amount(max(0, whole.size - part.size), max(0, whole.inodes - part.inodes))
