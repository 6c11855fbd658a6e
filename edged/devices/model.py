"""Devices, and what a plug-in says a container needs to use them."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

GRACE_SECONDS = 300.0
"""Seconds for which the devices of a plug-in that is away stay in the node's capacity (kubelet's
endpointStopGracePeriod)."""


class Device(Struct, frozen=True, gc=False):
    """One device, by the name that its plug-in has for it."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()
    """The memory nodes of the machine that it is near to."""


class PluginOptions(NamedTuple):
    """What a plug-in wants to be asked beside `Allocate`."""

    pre_start: bool = False
    """`PreStartContainer` before each start of a container."""
    preferred: bool = False
    """`GetPreferredAllocation` before devices are chosen."""


class DeviceNode(Struct, frozen=True):
    """A device file that a container gets."""

    container_path: str
    host_path: str
    permissions: str


class DeviceMount(Struct, frozen=True):
    """A file or directory of the node that a container gets."""

    container_path: str
    host_path: str
    read_only: bool = False


class Needs(Struct, frozen=True):
    """What a plug-in answered to `Allocate`: what a container needs to use the devices."""

    envs: Mapping[str, str] = {}
    mounts: tuple[DeviceMount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = {}
    cdi_devices: tuple[str, ...] = ()


class Grant(Struct, frozen=True):
    """Devices of one resource that one container has."""

    devices: tuple[Device, ...]
    """As they were when they were given; sorted by id."""
    needs: Needs = Needs()

    @property
    def ids(self) -> frozenset[str]:
        """Names of the devices."""
        return frozenset(device.id for device in self.devices)


class Share(NamedTuple):
    """How many devices of one resource the node has, and how many of them a pod could be given."""

    capacity: int
    allocatable: int
