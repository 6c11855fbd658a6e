"""Gives devices to containers, and takes them back when their pod has ended (kubelet's device manager).

A pod gets the devices of all its containers before anything of it is made, as at a kubelet's admission. But where a
kubelet refuses a pod because its devices are not there now (a plug-in is away, which all are after a reboot; a device
is broken; a pod that is ending still has it), here the pod waits: on an edge node nobody may be there who makes it
anew.

Used by workers, by the threads on which plug-ins register, and by the actors that listen to them. Nobody holds the lock
while a plug-in is asked.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from beehive import Clock
from edged.api import Container, Pod
from edged.devices.choice import Room, choose, has_choice, missing, reusable
from edged.devices.contract import DevicePlugin
from edged.devices.errors import AllocationRefusedError, DeviceError, DevicesPendingError, RegistrationError
from edged.devices.extras import merged
from edged.devices.inventory import Inventory, Provider
from edged.devices.ledger import Checkpoint, ContainerGrants, Ledger, write_checkpoint
from edged.devices.model import Device, Grant, Needs, Share
from edged.devices.rules import wanted_devices
from edged.plugins.errors import PluginCallError, PluginError
from edged.pods.labels import ref_of
from edged.pods.model import PodUid

_log = logging.getLogger(__name__)

_AWAY = frozenset({"UNAVAILABLE", "CANCELLED"})
"""What a call says whose plug-in has gone meanwhile."""
_ALLOCATE = "give devices to a container"


class _Wish(NamedTuple):
    pod: Pod
    container: Container
    resource: str
    number: int

    @property
    def uid(self) -> PodUid:
        return PodUid(self.pod.metadata.uid)

    def __str__(self) -> str:
        return f"{ref_of(self.pod)}/{self.container.name}"


class DeviceManager:
    """See the module's docstring.

    Args:
        clock: for the time for which a plug-in may be away.
        file: where what was given is written down.
        known: what was in it.
        changed: called when other devices are there, or devices are free, on whatever thread.
    """

    def __init__(self, clock: Clock, file: Path, known: Checkpoint, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._file = file
        self._changed = changed
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._inventory = Inventory(known.devices, clock.monotonic())
        self._ledger = Ledger(known.pods)
        self._unwritten = False
        self._closed = False

    def connect(self, resource: str, plugin: DevicePlugin) -> None:
        """A plug-in has registered: what it wants to be asked is asked here. Raises PluginError, RegistrationError."""
        options = plugin.options()
        with self._lock:
            if self._closed:
                raise RegistrationError("register a device plug-in", resource, "edged stops; register with the next")
            former = self._inventory.connected(resource, plugin, options)
        if former is not None:
            former.close()
        _log.info("device plug-in of %s is registered", resource)

    def listed(self, resource: str, plugin: DevicePlugin, devices: tuple[Device, ...]) -> None:
        """A plug-in has said which devices there are, and how they are.

        Only which there are is worth a write of its own: a device that breaks and recovers by the minute would wear out
        a card.
        """
        with self._lock:
            before = self._inventory.names(resource)
            changed = self._inventory.listed(resource, plugin, devices)
            self._unwritten |= self._inventory.names(resource) != before
        if not changed:
            return
        _log.info("%s: %d devices, %d of them healthy", resource, len(devices), sum(d.healthy for d in devices))
        try:
            self._write()
        except OSError as error:
            _log.warning("cannot write down which devices there are: %s; tried again with the next change", error)
        self._changed()

    def disconnect(self, resource: str, plugin: DevicePlugin) -> None:
        """A plug-in is gone, with all that was ours of it."""
        plugin.close()
        with self._lock:
            counted = self._inventory.disconnected(resource, plugin, self._clock.monotonic()) and not self._closed
        if counted:
            _log.warning("device plug-in of %s is gone", resource)
            self._changed()

    def ensure(self, pod: Pod, *, anew: bool, running: Collection[str] = ()) -> None:
        """Give the pod's containers the devices that they are to have and do not have yet; written down at the end.

        Args:
            pod: whose containers are about to start.
            anew: whether everything of it begins (again), so that what it has must work. A single container that is
                started again keeps its devices, whatever became of them, as with a kubelet.
            running: names of containers that run: they have what they need, whoever gave it to them.

        Raises:
            DevicesPendingError: the pod has to wait. What it was given meanwhile is taken back: two pods that each have
                half of what the other waits for would wait for ever.
            AllocationRefusedError: the pod cannot run here.
            OSError: it could not be written down.
        """
        given: list[_Wish] = []
        try:
            for wish in _wishes(pod):
                grant = self._granted(wish)
                if grant is not None:
                    self._check(wish, grant, anew=anew)
                elif wish.container.name not in running:
                    self._allocate(wish)
                    given.append(wish)
        except DeviceError:
            self._take_back(given)
            raise
        self._write()

    def prepare(self, pod: Pod, container: Container) -> Needs:
        """What the container needs for its devices; plug-ins that want it are told that it is about to start.

        Raises PluginError, DevicesPendingError.
        """
        with self._lock:
            grants = self._ledger.of(PodUid(pod.metadata.uid), container.name)
            providers = {resource: self._inventory.get(resource) for resource in grants}
        for resource, grant in grants.items():
            provider = providers[resource]
            if provider is not None and provider.options.pre_start:
                self._plugin(provider, resource).pre_start(grant.ids)
        return merged(grant.needs for _, grant in sorted(grants.items()))

    def release(self, uid: PodUid) -> None:
        """A pod has ended: others may have its devices."""
        with self._lock:
            had = self._ledger.forget(uid)
            self._unwritten |= had
        if not had:
            return
        try:
            self._write()
        except OSError as error:
            _log.warning("cannot write down that devices are free: %s; tried again with the next change", error)
        self._changed()

    def pods(self) -> dict[PodUid, ContainerGrants]:
        """Who has what."""
        with self._lock:
            return self._ledger.pods()

    def shares(self) -> dict[str, Share]:
        """What the node has of each resource."""
        with self._lock:
            return self._inventory.shares(self._clock.monotonic())

    def expected(self) -> dict[str, int]:
        """How many devices a new pod may hope for, see `Inventory.expected`."""
        with self._lock:
            return self._inventory.expected(self._clock.monotonic())

    def healthy(self) -> dict[str, tuple[Device, ...]]:
        """Devices that work, by resource."""
        with self._lock:
            return self._inventory.healthy()

    def close(self) -> None:
        """Let go of all plug-ins: calls that are under way end."""
        with self._lock:
            self._closed = True
            plugins = self._inventory.plugins()
        for plugin in plugins:
            plugin.close()

    def _granted(self, wish: _Wish) -> Grant | None:
        with self._lock:
            return self._ledger.get(wish.uid, wish.container.name, wish.resource)

    def _check(self, wish: _Wish, grant: Grant, *, anew: bool) -> None:
        if len(grant.devices) != wish.number:
            hint = f"changed request for resource {wish.resource} from {len(grant.devices)} to {wish.number}"
            raise AllocationRefusedError(_ALLOCATE, str(wish), hint)
        if not anew:
            return
        provider = self._provider(wish.resource)
        broken = sorted(grant.ids - provider.healthy)
        if broken:
            hint = f"previously allocated devices are no longer healthy: {', '.join(broken)}; waiting for them"
            raise DevicesPendingError(f"use {wish.resource}", str(wish), hint)

    def _allocate(self, wish: _Wish) -> None:
        """Devices are reserved while the plug-in is asked, and nobody else's then."""
        provider = self._provider(wish.resource)
        plugin = self._plugin(provider, wish.resource)
        chosen = self._reserve(wish, self._preferred(wish, provider, plugin))
        try:
            needs = plugin.allocate(chosen)
        except PluginError as error:
            self._free(wish.resource, chosen)
            raise _allocation_failed(wish, error) from error
        except BaseException:
            self._free(wish.resource, chosen)
            raise
        devices = tuple(provider.devices.get(device, Device(device)) for device in sorted(chosen))
        with self._lock:
            self._ledger.release(wish.resource, chosen)
            self._ledger.give(wish.uid, wish.container.name, wish.resource, Grant(devices, needs))
            self._unwritten = True
        _log.info("%s has %s %s", wish, wish.resource, ", ".join(sorted(chosen)))

    def _take_back(self, given: Iterable[_Wish]) -> None:
        with self._lock:
            for wish in given:
                self._ledger.take_back(wish.uid, wish.container.name, wish.resource)

    def _preferred(self, wish: _Wish, provider: Provider, plugin: DevicePlugin) -> frozenset[str]:
        """What the plug-in would give. A preference that cannot be had is no reason not to start."""
        with self._lock:
            room = self._room(wish)
        if not provider.options.preferred or not has_choice(room, wish.number):
            return frozenset()
        try:
            return plugin.preferred(room.inherited | room.free, room.inherited, wish.number)
        except PluginError as error:
            _log.warning("%s: nobody knows which devices are preferred: %s", wish, error)
            return frozenset()

    def _reserve(self, wish: _Wish, preferred: frozenset[str]) -> frozenset[str]:
        with self._lock:
            room = self._room(wish)
            chosen = choose(room, wish.number, preferred)
            if chosen is not None:
                self._ledger.reserve(wish.resource, chosen)
                return chosen
        available = wish.number - missing(room, wish.number)
        hint = f"Requested: {wish.number}, Available: {available}; waiting until devices are free"
        raise DevicesPendingError(f"requested number of devices unavailable for {wish.resource}", str(wish), hint)

    def _room(self, wish: _Wish) -> Room:
        """With the lock."""
        provider = self._inventory.get(wish.resource) or Provider()
        held = self._ledger.held(wish.uid, wish.resource)
        mine = reusable(wish.pod, wish.container.name, held)
        return Room(provider.healthy, self._ledger.taken(wish.resource), mine)

    def _free(self, resource: str, devices: Iterable[str]) -> None:
        with self._lock:
            self._ledger.release(resource, frozenset(devices))

    def _provider(self, resource: str) -> Provider:
        with self._lock:
            provider = self._inventory.get(resource)
        if provider is None:
            hint = "no device plug-in has registered for it; waiting for one"
            raise DevicesPendingError("find devices", resource, hint)
        self._plugin(provider, resource)
        return provider

    def _plugin(self, provider: Provider, resource: str) -> DevicePlugin:
        if provider.plugin is None:
            raise DevicesPendingError("find devices", resource, "its device plug-in is away; waiting for it")
        return provider.plugin

    def _write(self) -> None:
        """What is not written yet. Raises OSError; then the next call tries again."""
        with self._writing:
            with self._lock:
                if not self._unwritten:
                    return
                checkpoint = Checkpoint(self._inventory.devices(), self._ledger.pods())
                self._unwritten = False
            try:
                write_checkpoint(self._file, checkpoint)
            except OSError:
                with self._lock:
                    self._unwritten = True
                raise


def _wishes(pod: Pod) -> list[_Wish]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return [_Wish(pod, each, *wanted) for each in containers for wanted in wanted_devices(each).items()]


def _allocation_failed(wish: _Wish, error: PluginError) -> Exception:
    if isinstance(error, PluginCallError) and error.code in _AWAY:
        return DevicesPendingError("find devices", wish.resource, f"{error}; waiting for the plug-in")
    return AllocationRefusedError(_ALLOCATE, str(wish), str(error))
