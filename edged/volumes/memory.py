"""The size of an emptyDir of medium Memory (kubelet's calculateEmptyDirMemorySize)."""

from edged.api import Pod, Quantity, whole_value


def memory_size(pod: Pod, limit: Quantity | None, allocatable: int) -> int:
    """Return the size of a volume in bytes: the smallest of its own limit, the limit of the pod's containers together,
    and the node's allocatable memory. Without any of them 0, which leaves the kernel's default, half of the memory.

    Args:
        pod: of the volume. Its own limit counts only when every container has one, as for its cgroup.
        limit: the volume's `sizeLimit`.
        allocatable: bytes of memory that the node has for pods; 0 when unknown.
    """
    own = whole_value(limit) if limit is not None else 0
    bounds = [bound for bound in (own, _memory_limit(pod), allocatable) if bound > 0]
    return min(bounds, default=0)


def _memory_limit(pod: Pod) -> int:
    """Return the limit of the pod's containers together in bytes, 0 when one has none. Init containers run one after
    the other, and count as the largest of them.
    """
    running = [_limit(container.resources.limits) for container in pod.spec.containers]
    if not all(running):
        return 0
    return max(sum(running), *(_limit(container.resources.limits) for container in pod.spec.init_containers), 0)


def _limit(limits: dict[str, Quantity]) -> int:
    return whole_value(limits["memory"]) if "memory" in limits else 0
