"""Resource usage of pods and containers, for the evictor's ranking."""

from msgspec import Struct


class DiskConsumption(Struct, frozen=True, gc=False):
    """Bytes and inodes on a disk."""

    size: int = 0
    inodes: int = 0

    def __add__(self, other: "DiskConsumption") -> "DiskConsumption":
        return DiskConsumption(self.size + other.size, self.inodes + other.inodes)


class ContainerUsage(Struct, frozen=True):
    """Usage of one container. `memory` is its working set in bytes; None if unknown."""

    name: str
    memory: int | None = None
    layer: DiskConsumption = DiskConsumption()
    """Its writable layer."""
    logs: DiskConsumption = DiskConsumption()


class PodUsage(Struct, frozen=True):
    """Usage of one pod."""

    uid: str
    memory: int | None = None
    processes: int | None = None
    containers: tuple[ContainerUsage, ...] = ()
    storage: DiskConsumption = DiskConsumption()
    """Ephemeral storage: all its files on the node's disk."""

    @property
    def layers(self) -> DiskConsumption:
        """The writable layers of all containers together."""
        return sum((each.layer for each in self.containers), DiskConsumption())
