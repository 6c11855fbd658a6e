"""How much memory an emptyDir of medium Memory may take (kubelet's calculateEmptyDirMemorySize)."""

from edged.api import Pod, Quantity, whole_value


def memory_size(pod: Pod, limit: Quantity | None, allocatable: int) -> int:
    """Bytes of a volume: the smallest of its own limit, what the pod's containers may have together, and what the node
    has for pods.

    Args:
        pod: whose volume it is. Its own bound counts only when every container has one, as for its cgroup.
        limit: the volume's `sizeLimit`.
        allocatable: bytes of memory that the node has for pods; 0 when it is not known.

    0 is no bound of ours: the kernel's, half of the memory, holds.
    """
    own = whole_value(limit) if limit is not None else 0
    bounds = [bound for bound in (own, _memory_limit(pod), allocatable) if bound > 0]
    return min(bounds, default=0)


def _memory_limit(pod: Pod) -> int:
    """Bytes that the pod's containers may have together, 0 when one of them has no limit. Init containers run one after
    the other, and count as the largest of them.
    """
    running = [_limit(container.resources.limits) for container in pod.spec.containers]
    if not all(running):
        return 0
    return max(sum(running), *(_limit(container.resources.limits) for container in pod.spec.init_containers), 0)


def _limit(limits: dict[str, Quantity]) -> int:
    return whole_value(limits["memory"]) if "memory" in limits else 0
