"""The interfaces through which edged uses its machine."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from edged.cgroups.tree import CgroupTree
from edged.devices.contract import DevicePluginTransport
from edged.node.machine import MachineInfo
from edged.pods.model import PodUid
from edged.probes.network import Network
from edged.shutdown.logind import ShutdownSource
from edged.volumes import KernelMounts, Mounts
from modules.apimachinery.types import Pod


class Host(Struct, frozen=True, kw_only=True):
    """The interfaces of the machine; a simulated node has its own.

    Host(machine_info=FakeMachineInfo(), mounts=MemoryMounts())
    """

    machine_info: MachineInfo = field(default_factory=MachineInfo)
    """Facts and usage of the machine."""
    network: Network | None = None
    """Connects probes and hooks to containers; by sockets unless given."""
    mounts: Mounts = field(default_factory=KernelMounts)
    """Mount points of the node."""
    cgroups: CgroupTree | None = None
    """Tree for the pods' control groups; None: pods get no group."""
    devices: DevicePluginTransport | None = None
    """Connects device plug-ins; None: the node has no devices."""
    service_links: Callable[[Pod], Mapping[str, str]] | None = None
    """Returns the variables of Services for containers of a pod; blocks, and raises EdgedError while they are not
    known. None: no Services."""
    noticed_end: Callable[[PodUid, bool], bool] = lambda _uid, is_ending: is_ending
    """Returns whether a worker notices that its pod is being ended meanwhile, from whether it is."""
    shutdown: Callable[[], ShutdownSource] | None = None
    """Makes the source of shutdown notices, at each start of edged; None: shutdowns are not noticed."""
