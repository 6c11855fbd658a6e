"""kubelet's eviction signals: the resources that a node can run short of."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class Signal(StrEnum):
    """Names of signals, as thresholds use them."""

    MEMORY = "memory.available"
    NODE_FS = "nodefs.available"
    NODE_INODES = "nodefs.inodesFree"
    IMAGE_FS = "imagefs.available"
    IMAGE_INODES = "imagefs.inodesFree"
    PIDS = "pid.available"


class Pressure(StrEnum):
    """Conditions of the node."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PIDS = "PIDPressure"


class Observation(Struct, frozen=True, gc=False):
    """Available amount and capacity of a resource."""

    available: int
    capacity: int


Observations = Mapping[Signal, Observation]

PRESSURES: Final[Mapping[Signal, Pressure]] = {
    Signal.MEMORY: Pressure.MEMORY,
    Signal.NODE_FS: Pressure.DISK,
    Signal.NODE_INODES: Pressure.DISK,
    Signal.IMAGE_FS: Pressure.DISK,
    Signal.IMAGE_INODES: Pressure.DISK,
    Signal.PIDS: Pressure.PIDS,
}

RESOURCES: Final[Mapping[Signal, str]] = {
    Signal.MEMORY: "memory",
    Signal.NODE_FS: "ephemeral-storage",
    Signal.NODE_INODES: "inodes",
    Signal.IMAGE_FS: "ephemeral-storage",
    Signal.IMAGE_INODES: "inodes",
    Signal.PIDS: "pids",
}
"""The resource of each signal, as messages name it."""
