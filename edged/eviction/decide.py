"""Decisions of the eviction manager: the node's conditions, the thresholds to act on, and pods over their own limits.

The order of steps is kubelet's (`synchronize`). Times are monotonic seconds. Pure.

The kernel limits no directory's size, so a pod over its limit is evicted when that is observed (kubelet's
localStorageEviction). There are two limits: the pod's (the sum of its containers' limits), and each regular container's
(its logs, and its writable layer unless images have a file system of their own). `edged.volume_manager` observes the
limits of emptyDir volumes.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from edged.eviction_api.signals import PRESSURES, Observation, Observations, Pressure, Signal
from edged.eviction_api.thresholds import EvictionSettings, Threshold
from edged.eviction_api.usage import PodUsage
from edged.node.machine import FileSystem, MachineUsage
from modules.apimachinery.pods.demand import pod_limits
from modules.apimachinery.types import Pod, whole_value
from modules.apimachinery.types.quantity import format_binary_quantity

_STORAGE: Final = "ephemeral-storage"


def observe(usage: MachineUsage) -> dict[Signal, Observation]:
    """Return the observations of all signals.

    Without a file system of their own, images are on the node's, but still have their own thresholds. A file
    system without a fixed number of inodes has no observation of them.
    """
    return {
        Signal.MEMORY: Observation(usage.memory_available, usage.memory),
        **_of(usage.node_fs, Signal.NODE_FS, Signal.NODE_INODES),
        **_of(usage.images, Signal.IMAGE_FS, Signal.IMAGE_INODES),
        Signal.PIDS: Observation(usage.pids_free, usage.pids),
    }


def _of(disk: FileSystem, size: Signal, inodes: Signal) -> dict[Signal, Observation]:
    found = {size: Observation(disk.available, disk.capacity)}
    return {**found, inodes: Observation(disk.inodes_free, disk.inodes)} if disk.inodes else found


def has_limits(pod: Pod) -> bool:
    """Return whether the pod has a limit; without any such pod no files have to be counted."""
    return _STORAGE in pod_limits(pod)


def excess(pod: Pod, usage: PodUsage, *, image_fs_apart: bool) -> str | None:
    """Return kubelet's eviction message for a pod over a limit; None within its limits.

    Args:
        pod: the pod.
        usage: its usage.
        image_fs_apart: whether the images' file system, with the writable layers, is another than the pods' directory.
    """
    return _of_pod(pod, usage) or _of_containers(pod, usage, image_fs_apart=image_fs_apart)


def _of_pod(pod: Pod, usage: PodUsage) -> str | None:
    limit = pod_limits(pod).get(_STORAGE)
    if limit is None or usage.storage.size <= limit:
        return None
    shown = format_binary_quantity(int(limit))
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "


def _of_containers(pod: Pod, usage: PodUsage, *, image_fs_apart: bool) -> str | None:
    limits = {c.name: c.resources.limits[_STORAGE] for c in pod.spec.containers if _STORAGE in c.resources.limits}
    for container in usage.containers:
        limit = limits.get(container.name)
        used = container.logs.size + (0 if image_fs_apart else container.layer.size)
        if limit is not None and 0 < whole_value(limit) < used:
            return f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
    return None


class EvictionState(Struct, frozen=True):
    """The evictor's memory between two checks."""

    met: tuple[Threshold, ...] = ()
    """The thresholds to act on at the last check."""
    first_met: Mapping[Threshold, float] = {}
    """The time since when each threshold has been met without a break."""
    last_seen: Mapping[Pressure, float] = {}
    """The time when a threshold of each condition was last met."""


class EvictionDecision(NamedTuple):
    """The result of a check."""

    state: EvictionState
    pressures: frozenset[Pressure]
    """The node's conditions."""
    due: tuple[Threshold, ...]
    """The thresholds to act on, the most urgent first."""


def judge(state: EvictionState, settings: EvictionSettings, observations: Observations, now: float) -> EvictionDecision:
    """Decide by the present observations.

    A condition is set as soon as a threshold is met, a soft one too, and holds for the transition period after that: a
    node must not alternate between accepting pods and evicting them.
    """
    unresolved = {t for t in state.met if _is_met(t, observations, with_reclaim=True)}
    met = [t for t in settings.thresholds if _is_met(t, observations) or t in unresolved]
    first_met = {threshold: state.first_met.get(threshold, now) for threshold in met}
    last_seen = {**state.last_seen, **{PRESSURES[threshold.signal]: now for threshold in met}}
    holding = {p: at for p, at in last_seen.items() if at == now or now - at < settings.transition}
    due = [threshold for threshold in met if now - first_met[threshold] >= (threshold.grace or 0)]
    due.sort(key=lambda threshold: threshold.signal is not Signal.MEMORY)
    return EvictionDecision(EvictionState(tuple(due), first_met, holding), frozenset(holding), tuple(due))


def any_met(thresholds: tuple[Threshold, ...], observations: Observations) -> bool:
    """Return whether any of the thresholds is met, or its minimum reclaim is still missing."""
    return any(_is_met(threshold, observations, with_reclaim=True) for threshold in thresholds)


def _is_met(threshold: Threshold, observations: Observations, *, with_reclaim: bool = False) -> bool:
    """Return whether the threshold is met; without an observation it is not."""
    observation = observations.get(threshold.signal)
    return observation is not None and threshold.met(observation, with_reclaim=with_reclaim)
