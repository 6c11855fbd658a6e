"""Pods that take more of the node's disk than they may (kubelet's localStorageEviction).

The kernel bounds no directory's size, so what is over its limit is ended when it is seen. Two limits: of the pod (its
containers' limits in sum), and of one container (what it has written to its root and its logs). The limits of emptyDir
volumes are watched by `edged.volumes.size_watch`. Pure.
"""

from typing import Final

from edged.api import Pod, whole_value
from edged.api.quantity import format_binary_quantity
from edged.eviction.consumption import PodUsage
from edged.pods.demand import pod_limits

_STORAGE: Final = "ephemeral-storage"


def has_limits(pod: Pod) -> bool:
    """Whether there is anything to watch: without such a pod nobody need count files."""
    return _STORAGE in pod_limits(pod)


def excess(pod: Pod, usage: PodUsage) -> str | None:
    """Why the pod has to go, in kubelet's words; None while it keeps its limits."""
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
