"""Pods over their limits of ephemeral storage (kubelet's localStorageEviction). Pure.

The kernel limits no directory's size, so a pod over its limit is evicted when that is observed. There are two limits:
the pod's (the sum of its containers' limits), and each container's (its writable layer and its logs).
`edged.volumes.empty_dir_monitor` observes the limits of emptyDir volumes.
"""

from typing import Final

from edged.api import Pod, whole_value
from edged.api.quantity import format_binary_quantity
from edged.eviction_api.usage import PodUsage
from edged.pods.demand import pod_limits

_STORAGE: Final = "ephemeral-storage"


def has_limits(pod: Pod) -> bool:
    """Whether the pod has a limit; without any such pod no files have to be counted."""
    return _STORAGE in pod_limits(pod)


def excess(pod: Pod, usage: PodUsage) -> str | None:
    """Return kubelet's eviction message for a pod over a limit; None within its limits."""
    return _of_pod(pod, usage) or _of_containers(pod, usage)


def _of_pod(pod: Pod, usage: PodUsage) -> str | None:
    limit = int(pod_limits(pod).get(_STORAGE, 0))
    if not 0 < limit < usage.storage.size:
        return None
    shown = format_binary_quantity(limit)
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "


def _of_containers(pod: Pod, usage: PodUsage) -> str | None:
    limits = {c.name: c.resources.limits[_STORAGE] for c in pod.spec.all_containers if _STORAGE in c.resources.limits}
    for container in usage.containers:
        limit = limits.get(container.name)
        if limit is not None and 0 < whole_value(limit) < container.layer.size + container.logs.size:
            return f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
    return None
