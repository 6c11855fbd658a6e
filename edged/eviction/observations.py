"""From the machine's usage to observations of eviction signals (kubelet's makeSignalObservations)."""

from edged.eviction_api.signals import Observation, Signal
from edged.node.machine import FileSystem, MachineUsage


def observe(usage: MachineUsage) -> dict[Signal, Observation]:
    """Return the observations of all signals.

    Without a file system of their own, images are on the node's, but have their own thresholds all the same. A file
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
