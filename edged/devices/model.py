"""Devices, and a container's options for them."""

import msgspec
from msgspec import Struct, field

from edged.pods.config.device_options import DeviceRunContainerOptions

GRACE_SECONDS = 300.0
"""Seconds that the devices of a disconnected plug-in stay in the node's capacity (kubelet's
endpointStopGracePeriod).
"""


class Device(Struct, frozen=True, gc=False):
    """One device, with its plug-in's id."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()
    """Ids of the nearby NUMA nodes."""


class PluginOptions(msgspec.Struct, frozen=True):
    """The optional calls of a plug-in."""

    pre_start: bool = False
    """`PreStartContainer` before each start of a container."""
    preferred: bool = False
    """`GetPreferredAllocation` before devices are chosen."""


class DeviceAllocation(Struct, frozen=True):
    """A container's devices of one resource."""

    devices: tuple[Device, ...]
    """In their state at the allocation; sorted by id."""
    options: DeviceRunContainerOptions = field(default=DeviceRunContainerOptions(), name="needs")

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the devices."""
        return frozenset(device.id for device in self.devices)


class DeviceCapacity(msgspec.Struct, frozen=True):
    """The number of devices of one resource on the node, and how many of them a pod could get."""

    capacity: int
    allocatable: int
