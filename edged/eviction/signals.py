"""What a node can run short of, and where that is seen (kubelet's eviction signals)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from edged.node.machine import FileSystem, Usage


class Signal(StrEnum):
    """Names that thresholds are written with."""

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
    """What is left of something, and what there is in all."""

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
"""What pods take of it, as messages name it."""


def observe(usage: Usage) -> dict[Signal, Observation]:
    """What is left of everything. Where images have no file system of their own theirs is the node's, with thresholds
    of its own all the same. A file system without a fixed number of inodes never runs short of them.
    """
    return {
        Signal.MEMORY: Observation(usage.memory_available, usage.memory),
        **_of(usage.node_fs, Signal.NODE_FS, Signal.NODE_INODES),
        **_of(usage.images, Signal.IMAGE_FS, Signal.IMAGE_INODES),
        Signal.PIDS: Observation(usage.pids_free, usage.pids),
    }


def _of(there: FileSystem, size: Signal, inodes: Signal) -> dict[Signal, Observation]:
    found = {size: Observation(there.available, there.capacity)}
    return {**found, inodes: Observation(there.inodes_free, there.inodes)} if there.inodes else found
