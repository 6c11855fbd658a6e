"""The choice of a container's devices, as pure functions (kubelet's devicesToAllocate, with topology policy `none`)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from edged.api import Pod
from edged.pods.sidecars import is_sidecar


class DevicePool(NamedTuple):
    """The devices of one resource, as one container may choose from them."""

    healthy: AbstractSet[str]
    """All healthy devices of the resource."""
    taken: AbstractSet[str]
    """Devices that any container has."""
    reusable: AbstractSet[str] = frozenset()
    """Devices of the pod's ended init containers, which this container may have too."""

    @property
    def inherited(self) -> frozenset[str]:
        """The reusable devices that are healthy."""
        return frozenset(self.reusable & self.healthy)

    @property
    def free(self) -> frozenset[str]:
        """The healthy devices without a container."""
        return frozenset(self.healthy - self.taken)


def missing(pool: DevicePool, count: int) -> int:
    """Return how many devices are missing for `count`; 0 when there are enough."""
    return max(0, count - len(pool.inherited | pool.free))


def has_choice(pool: DevicePool, count: int) -> bool:
    """Return whether there is a choice for which the plug-in's preference matters."""
    return len(pool.inherited) < count < len(pool.inherited | pool.free)


def choose(pool: DevicePool, count: int, preferred: AbstractSet[str] = frozenset()) -> frozenset[str] | None:
    """Return `count` devices: first those that the pod already has, then preferred ones, then any; sorted by name.

    None when there are too few.
    """
    if missing(pool, count):
        return None

    def rank(device: str) -> tuple[bool, bool, str]:
        return device not in pool.inherited, device not in preferred, device

    return frozenset(sorted(pool.inherited | pool.free, key=rank)[:count])


def reusable(pod: Pod, container: str, had: Mapping[str, AbstractSet[str]]) -> frozenset[str]:
    """Return the devices of the pod that the container may have too: devices of earlier init containers, which have
    ended by then, but not of sidecars, nor devices that another container has inherited.

    Args:
        pod: of the container.
        container: name of the container that needs devices.
        had: devices by container, for one resource.
    """
    found: set[str] = set()
    for each in (*pod.spec.init_containers, *pod.spec.containers):
        if each.name == container:
            break
        devices = had.get(each.name, frozenset())
        is_init = each in pod.spec.init_containers and not is_sidecar(each)
        found = found | devices if is_init else found - devices
    return frozenset(found)
