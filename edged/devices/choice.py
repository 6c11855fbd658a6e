"""Which devices a container gets, as pure functions (kubelet's devicesToAllocate, with its topology policy `none`)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from edged.api import Pod
from edged.pods.restart import is_sidecar


class Room(NamedTuple):
    """What there is to choose from for one container."""

    healthy: AbstractSet[str]
    """All devices of the resource that work."""
    taken: AbstractSet[str]
    """Those that some container has."""
    reusable: AbstractSet[str] = frozenset()
    """Those that the pod's init containers had, and this one may have too."""

    @property
    def inherited(self) -> frozenset[str]:
        """Reusable ones that work."""
        return frozenset(self.reusable & self.healthy)

    @property
    def free(self) -> frozenset[str]:
        """Those that nobody has."""
        return frozenset(self.healthy - self.taken)


def missing(room: Room, count: int) -> int:
    """How many devices there are too few; 0 when there are enough."""
    return max(0, count - len(room.inherited | room.free))


def has_choice(room: Room, count: int) -> bool:
    """Whether it is worth asking the plug-in which devices it would give."""
    return len(room.inherited) < count < len(room.inherited | room.free)


def choose(room: Room, count: int, preferred: AbstractSet[str] = frozenset()) -> frozenset[str] | None:
    """Devices that the pod has already come first, then those that the plug-in prefers, then any; by their names.

    None when there are too few.
    """
    if missing(room, count):
        return None

    def rank(device: str) -> tuple[bool, bool, str]:
        return device not in room.inherited, device not in preferred, device

    return frozenset(sorted(room.inherited | room.free, key=rank)[:count])


def reusable(pod: Pod, container: str, had: Mapping[str, AbstractSet[str]]) -> frozenset[str]:
    """Devices of the pod that the container may have too: those of init containers before it, which have ended by
    then, without those of sidecars, and without those that another container has taken over.

    Args:
        pod: whose container it is.
        container: that is to have devices.
        had: devices by container, for the resource in question.
    """
    found: set[str] = set()
    for each in (*pod.spec.init_containers, *pod.spec.containers):
        if each.name == container:
            break
        devices = had.get(each.name, frozenset())
        is_init = each in pod.spec.init_containers and not is_sidecar(each)
        found = found | devices if is_init else found - devices
    return frozenset(found)
