"""The device plug-ins and their devices."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from edged.devices.contract import DevicePlugin
from edged.devices.model import GRACE_SECONDS, Device, DeviceCapacity, PluginOptions
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Pod


class PluginEndpoint(Struct, frozen=True):
    """The plug-in of one resource, and its last report (kubelet's endpointInfo)."""

    plugin: DevicePlugin | None = None
    """None while the plug-in is disconnected."""
    options: PluginOptions = PluginOptions()
    devices: Mapping[str, Device] = {}
    listed: bool = False
    """Whether this plug-in has reported the devices; else they are from before its registration."""
    is_restored: bool = False
    """Whether the devices are the checkpoint's, and no plug-in has reported any since edged started."""
    gone_at: float = 0.0
    """Monotonic seconds of its disconnection."""

    @property
    def healthy(self) -> frozenset[str]:
        """Ids of allocatable devices: empty while the plug-in is disconnected, or has not reported."""
        return frozenset(d.id for d in self.devices.values() if d.healthy and self.listed)

    def is_over(self, now: float) -> bool:
        """Return whether it has been away for longer than GRACE_SECONDS."""
        return self.plugin is None and now - self.gone_at >= GRACE_SECONDS


class Inventory:
    """The plug-ins of the node by resource; computes the node's capacity in devices. Its owner locks it.

    Args:
        known: devices from the checkpoint of an earlier agent. Their plug-ins must register again; until then all
            devices are expected to be healthy.
        now: monotonic seconds.
    """

    def __init__(self, known: Mapping[str, Sequence[Device]], now: float) -> None:
        self._endpoints = {
            resource: PluginEndpoint(
                devices={each.id: replace(each, healthy=True) for each in devices}, is_restored=True, gone_at=now
            )
            for resource, devices in known.items()
        }
        self._removed: set[str] = set()

    def get(self, resource: str) -> PluginEndpoint | None:
        """Return the endpoint of a resource; None if it never had one, or lost it GRACE_SECONDS ago."""
        return self._endpoints.get(resource)

    def is_known(self, resource: str) -> bool:
        """Return whether a resource is a device plug-in's: one has registered for it, with this agent or an earlier
        one (kubelet's isDevicePluginResource). Others are numbers that an administrator has written into the Node.
        """
        return resource in self._endpoints or resource in self._removed

    def names(self, resource: str) -> frozenset[str]:
        """Return the ids of a resource's devices in the last report."""
        return frozenset(self._endpoints.get(resource, PluginEndpoint()).devices)

    def connected(self, resource: str, plugin: DevicePlugin, options: PluginOptions) -> DevicePlugin | None:
        """Add a plug-in; return its predecessor."""
        former = self._endpoints.get(resource, PluginEndpoint())
        self._endpoints[resource] = PluginEndpoint(
            plugin, options, former.devices, former.listed, is_restored=former.is_restored
        )
        return former.plugin

    def listed(self, resource: str, plugin: DevicePlugin, devices: Iterable[Device]) -> bool:
        """Store the plug-in's report; return whether it differs from the last one. Reports of a replaced plug-in are
        ignored.
        """
        endpoint = self._endpoints.get(resource)
        if endpoint is None or endpoint.plugin is not plugin:
            return False
        found = {device.id: device for device in devices}
        self._endpoints[resource] = replace(endpoint, devices=found, listed=True, is_restored=False)
        return found != endpoint.devices or not endpoint.listed

    def disconnected(self, resource: str, plugin: DevicePlugin, now: float) -> bool:
        """Mark a plug-in as away; return False if it was replaced before."""
        endpoint = self._endpoints.get(resource)
        if endpoint is None or endpoint.plugin is not plugin:
            return False
        self._endpoints[resource] = replace(endpoint, plugin=None, listed=False, gone_at=now)
        return True

    def capacity(self, now: float) -> dict[str, DeviceCapacity]:
        """Return capacity and allocatable devices by resource (kubelet's GetCapacity).

        Without their plug-in devices count as unhealthy, and not at all after five minutes, or before its first report
        to this agent. A vanished resource stays with 0, which tells that it existed.
        """
        for resource in [name for name, endpoint in self._endpoints.items() if endpoint.is_over(now)]:
            del self._endpoints[resource]
            self._removed.add(resource)
        there = {
            name: DeviceCapacity(0 if each.is_restored else len(each.devices), len(each.healthy))
            for name, each in self._endpoints.items()
        }
        return {**{name: DeviceCapacity(0, 0) for name in sorted(self._removed)}, **there}

    def expected(self, now: float) -> dict[str, int]:
        """Return how many devices a new pod may expect; a plug-in that is away for a short time counts with its last
        devices.
        """
        return {
            name: sum(device.healthy for device in each.devices.values())
            for name, each in self._endpoints.items()
            if not each.is_over(now)
        }

    def devices(self) -> dict[str, tuple[Device, ...]]:
        """Return all reported devices, for the checkpoint. A vanished resource has none: it stays a plug-in's."""
        there = {name: tuple(each.devices.values()) for name, each in self._endpoints.items()}
        return dict(sorted({**dict.fromkeys(self._removed, ()), **there}.items()))

    def healthy(self) -> dict[str, tuple[Device, ...]]:
        """Return the healthy devices by resource."""
        return {
            name: tuple(each.devices[device] for device in sorted(each.healthy))
            for name, each in sorted(self._endpoints.items())
        }

    def plugins(self) -> list[DevicePlugin]:
        """Return the connected plug-ins."""
        return [each.plugin for each in self._endpoints.values() if each.plugin is not None]


class DevicePool(msgspec.Struct, frozen=True):
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
    """Return whether the plug-in's preference can matter."""
    return len(pool.inherited) < count < len(pool.inherited | pool.free)


def choose(pool: DevicePool, count: int, preferred: AbstractSet[str] = frozenset()) -> frozenset[str] | None:
    """Return `count` devices: first the pod's present ones, then preferred ones, then any; sorted by name.

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
