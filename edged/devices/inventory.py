"""Which plug-ins there are, and the devices of each; what the node reports of them is computed here."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from edged.devices.contract import DevicePlugin
from edged.devices.model import GRACE_SECONDS, Device, PluginOptions, Share


class Provider(Struct, frozen=True):
    """The plug-in of one resource, and what it said last."""

    plugin: DevicePlugin | None = None
    """None while it is away."""
    options: PluginOptions = PluginOptions()
    devices: Mapping[str, Device] = {}
    listed: bool = False
    """Whether the devices are what this plug-in says, and not what was said before it came."""
    gone_at: float = 0.0
    """When it went, monotonic seconds."""

    @property
    def healthy(self) -> frozenset[str]:
        """Devices that may be given: none while the plug-in is away, or has not said which it has."""
        return frozenset(d.id for d in self.devices.values() if d.healthy and self.listed)

    def is_over(self, now: float) -> bool:
        """Whether it has been away for so long that nobody waits for it any more."""
        return self.plugin is None and now - self.gone_at >= GRACE_SECONDS


class Inventory:
    """See the module's docstring. Not thread-safe: its owner is.

    Args:
        known: what the former agent knew: these plug-ins have to register again. Until they have, nobody knows which of
            the devices work, and all of them may be hoped for.
        now: monotonic seconds.
    """

    def __init__(self, known: Mapping[str, Sequence[Device]], now: float) -> None:
        self._providers = {
            resource: Provider(devices={each.id: replace(each, healthy=True) for each in devices}, gone_at=now)
            for resource, devices in known.items()
        }
        self._removed: set[str] = set()

    def get(self, resource: str) -> Provider | None:
        """Who provides a resource; None when nobody does, or did not long ago."""
        return self._providers.get(resource)

    def names(self, resource: str) -> frozenset[str]:
        """Of the devices of a resource, as they were said last."""
        return frozenset(self._providers.get(resource, Provider()).devices)

    def connected(self, resource: str, plugin: DevicePlugin, options: PluginOptions) -> DevicePlugin | None:
        """A plug-in is there; the one that it replaces."""
        former = self._providers.get(resource, Provider())
        self._providers[resource] = Provider(plugin, options, former.devices, former.listed)
        self._removed.discard(resource)
        return former.plugin

    def listed(self, resource: str, plugin: DevicePlugin, devices: Iterable[Device]) -> bool:
        """What the plug-in says of its devices; whether it says something else than before. One that was replaced does
        not count.
        """
        provider = self._providers.get(resource)
        if provider is None or provider.plugin is not plugin:
            return False
        found = {device.id: device for device in devices}
        self._providers[resource] = replace(provider, devices=found, listed=True)
        return found != provider.devices or not provider.listed

    def disconnected(self, resource: str, plugin: DevicePlugin, now: float) -> bool:
        """A plug-in is gone; whether it counted."""
        provider = self._providers.get(resource)
        if provider is None or provider.plugin is not plugin:
            return False
        self._providers[resource] = replace(provider, plugin=None, listed=False, gone_at=now)
        return True

    def shares(self, now: float) -> dict[str, Share]:
        """What the node has of each resource (kubelet's GetCapacity).

        Without their plug-in devices count as broken, and after five minutes as none. A resource that has gone is then
        shown with 0, which says that it was there.
        """
        for resource in [name for name, provider in self._providers.items() if provider.is_over(now)]:
            del self._providers[resource]
            self._removed.add(resource)
        there = {name: Share(len(each.devices), len(each.healthy)) for name, each in self._providers.items()}
        return {**{name: Share(0, 0) for name in sorted(self._removed)}, **there}

    def expected(self, now: float) -> dict[str, int]:
        """How many devices a new pod may hope for: of a plug-in that is away for a short time, what it had."""
        return {
            name: sum(device.healthy for device in each.devices.values())
            for name, each in self._providers.items()
            if not each.is_over(now)
        }

    def devices(self) -> dict[str, tuple[Device, ...]]:
        """Everything that plug-ins have said, for the file."""
        return {name: tuple(each.devices.values()) for name, each in sorted(self._providers.items())}

    def healthy(self) -> dict[str, tuple[Device, ...]]:
        """Devices that work, by resource."""
        return {
            name: tuple(each.devices[device] for device in sorted(each.healthy))
            for name, each in sorted(self._providers.items())
        }

    def plugins(self) -> list[DevicePlugin]:
        """Those that are there."""
        return [each.plugin for each in self._providers.values() if each.plugin is not None]
