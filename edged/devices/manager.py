"""Allocates devices to containers (kubelet's device manager)."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from beehive import Clock
from edged.devices.contract import DevicePlugin
from edged.devices.inventory import DevicePool, Inventory, PluginEndpoint, choose, has_choice, missing, reusable
from edged.devices.model import Device, DeviceAllocation, DeviceCapacity
from edged.devices.pod_devices import Checkpoint, ContainerAllocations, PodDevices, write_checkpoint
from edged.devices.rules import requested_devices
from edged.errors import (
    AllocationRefusedError,
    DevicesPendingError,
    PluginCallError,
    PluginError,
    RegistrationError,
)
from edged.pods.config.device_options import DeviceMount, DeviceNode, DeviceRunContainerOptions
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from modules.apimachinery.types import Container, Pod

T = TypeVar("T")
_log = logging.getLogger(__name__)


def merged_options(options: Iterable[DeviceRunContainerOptions]) -> DeviceRunContainerOptions:
    """Merge the options of several resources; of two with the same name or path, the first wins."""
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, DeviceMount] = {}
    nodes: dict[str, DeviceNode] = {}
    cdi: dict[str, None] = {}
    for each in options:
        _add(envs, each.envs, "variable")
        _add(annotations, each.annotations, "annotation")
        _add(mounts, {mount.container_path: mount for mount in each.mounts}, "mount")
        _add(nodes, {node.container_path: node for node in each.nodes}, "device")
        cdi |= dict.fromkeys(each.cdi_devices)
    return DeviceRunContainerOptions(envs, tuple(mounts.values()), tuple(nodes.values()), annotations, tuple(cdi))


def _add(known: dict[str, T], more: Mapping[str, T], what: str) -> None:
    for name, value in more.items():
        if known.setdefault(name, value) != value:
            _log.warning("two resources set %s %s to different values; the first is used", what, name)


_AWAY = frozenset({"UNAVAILABLE", "CANCELLED"})
"""gRPC codes of a call whose plug-in disconnects."""
_ALLOCATE = "give devices to a container"


class _DeviceRequest(msgspec.Struct, frozen=True):
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
    """The manager that allocates devices to containers, and frees them when their pod has ended.

    A pod gets the devices of all its containers before anything of it is made, as at kubelet's admission. An extended
    resource for which no plug-in has ever registered needs no device: an administrator has written its amount into the
    Node, and the pod starts. But where
    kubelet refuses a pod whose devices are not available (a plug-in is away, as all are after a reboot; a device is
    unhealthy; an ending pod still has it), here the pod waits: an edge node may have nobody to create it again.

    Thread-safe: workers, the threads of registrations, and the readers of ListAndWatch use it. No lock is
    held during a plug-in's call.

    Args:
        clock: for the time that a plug-in may be away.
        file: the checkpoint.
        known: its content.
        changed: called on any thread when devices have changed, or were freed.
    """

    def __init__(self, clock: Clock, file: Path, known: Checkpoint, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._file = file
        self._changed = changed
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._inventory = Inventory(known.devices, clock.monotonic())
        self._pod_devices = PodDevices(known.pods)
        self._unwritten = False
        self._writes = 0
        """Checkpoints that were begun."""
        self._closed = False

    def connect(self, resource: str, plugin: DevicePlugin) -> None:
        """Register a plug-in, after a call for its options. Raises PluginError, RegistrationError."""
        options = plugin.options()
        with self._lock:
            if self._closed:
                raise RegistrationError(
                    "register a device plug-in", resource, "edged is stopping; register after its next start"
                )
            former = self._inventory.connected(resource, plugin, options)
        if former is not None:
            former.close()
        _log.info("device plug-in of %s is registered", resource)

    def listed(self, resource: str, plugin: DevicePlugin, devices: tuple[Device, ...]) -> None:
        """Store a plug-in's report of its devices.

        Only a change of the ids is written to the checkpoint: a device whose health changes by the minute would wear
        out an SD card.
        """
        with self._lock:
            before = self._inventory.names(resource)
            changed = self._inventory.listed(resource, plugin, devices)
            self._unwritten |= self._inventory.names(resource) != before
        if not changed:
            return
        _log.info("%s: %d devices, %d of them healthy", resource, len(devices), sum(d.healthy for d in devices))
        self._write_or_warn("the list of devices")
        self._changed()

    def disconnect(self, resource: str, plugin: DevicePlugin) -> None:
        """Close the connection to a plug-in that has ended."""
        plugin.close()
        with self._lock:
            counted = self._inventory.disconnected(resource, plugin, self._clock.monotonic()) and not self._closed
        if counted:
            _log.warning("device plug-in of %s has ended", resource)
            self._changed()

    def allocate(self, pod: Pod, *, anew: bool, running: Collection[str] = ()) -> None:
        """Allocate the missing devices of the pod's containers, and write the checkpoint.

        Args:
            pod: whose containers are about to start.
            anew: whether the whole pod starts, so that its earlier devices must be healthy. A single restarted
                container keeps its devices in any state, as with kubelet.
            running: names of running containers: they no longer need an allocation.

        Raises:
            DevicesPendingError: the pod must wait. Its new allocations are undone: two pods that each have half of the
                other's devices would wait for ever.
            AllocationRefusedError: the pod cannot run here.
            OSError: the checkpoint could not be written.
        """
        given: list[_DeviceRequest] = []
        writes = self._writes
        try:
            for request in _device_requests(pod):
                allocation = self._allocated(request)
                if allocation is not None:
                    self._check(request, allocation, anew=anew)
                elif request.container.name not in running and self._is_plugins(request.resource):
                    self._allocate(request)
                    given.append(request)
        except BaseException:
            self._release(given)
            if self._writes != writes:
                self._write_or_warn("which devices a waiting pod has given back")
            raise
        self._write()

    def run_container_options(self, pod: Pod, container: Container) -> DeviceRunContainerOptions:
        """Return the options that give the container its devices; call PreStartContainer of the plug-ins that
        require it (kubelet's GetDeviceRunContainerOptions).

        Raises PluginError, DevicesPendingError.
        """
        with self._lock:
            allocations = self._pod_devices.of(PodUid(pod.metadata.uid), container.name)
            endpoints = {resource: self._inventory.get(resource) for resource in allocations}
        for resource, allocation in allocations.items():
            endpoint = endpoints[resource]
            if endpoint is not None and endpoint.options.pre_start:
                self._plugin(endpoint, resource).pre_start(allocation.ids)
        return merged_options(allocation.options for _, allocation in sorted(allocations.items()))

    def release(self, uid: PodUid) -> None:
        """Free the devices of an ended pod."""
        with self._lock:
            had = self._pod_devices.delete(uid)
            self._unwritten |= had
        if not had:
            return
        self._write_or_warn("which devices were freed")
        self._changed()

    def pods(self) -> dict[PodUid, ContainerAllocations]:
        """Return the allocations of all pods."""
        with self._lock:
            return self._pod_devices.pods()

    def capacity(self) -> dict[str, DeviceCapacity]:
        """Return capacity and allocatable devices by resource (kubelet's GetCapacity)."""
        with self._lock:
            return self._inventory.capacity(self._clock.monotonic())

    def expected(self) -> dict[str, int]:
        """Return how many devices a new pod may expect, see `Inventory.expected`."""
        with self._lock:
            return self._inventory.expected(self._clock.monotonic())

    def healthy(self) -> dict[str, tuple[Device, ...]]:
        """Return the healthy devices by resource."""
        with self._lock:
            return self._inventory.healthy()

    def close(self) -> None:
        """Close the connections to all plug-ins: calls under way end."""
        with self._lock:
            self._closed = True
            plugins = self._inventory.plugins()
        for plugin in plugins:
            plugin.close()

    def _allocated(self, request: _DeviceRequest) -> DeviceAllocation | None:
        with self._lock:
            return self._pod_devices.get(request.uid, request.container.name, request.resource)

    def _check(self, request: _DeviceRequest, allocation: DeviceAllocation, *, anew: bool) -> None:
        if len(allocation.devices) != request.number:
            hint = f"changed request for resource {request.resource} from {len(allocation.devices)} to {request.number}"
            raise AllocationRefusedError(_ALLOCATE, str(request), hint)
        if not anew:
            return
        endpoint = self._endpoint(request.resource)
        broken = sorted(allocation.ids - endpoint.healthy)
        if broken:
            hint = f"previously allocated devices are no longer healthy: {', '.join(broken)}; waiting for them"
            raise DevicesPendingError(f"use {request.resource}", str(request), hint)

    def _allocate(self, request: _DeviceRequest) -> None:
        """Allocate the devices of one request; they are reserved during the plug-in's call."""
        endpoint = self._endpoint(request.resource)
        plugin = self._plugin(endpoint, request.resource)
        chosen = self._reserve(request, self._preferred(request, endpoint, plugin))
        try:
            options = plugin.allocate(chosen)
        except PluginError as error:
            self._free(request.resource, chosen)
            raise _allocation_failed(request, error) from error
        except BaseException:
            self._free(request.resource, chosen)
            raise
        devices = tuple(endpoint.devices.get(device, Device(device)) for device in sorted(chosen))
        with self._lock:
            self._pod_devices.release(request.resource, chosen)
            allocation = DeviceAllocation(devices, options)
            self._pod_devices.insert(request.uid, request.container.name, request.resource, allocation)
            self._unwritten = True
        _log.info("%s has %s %s", request, request.resource, ", ".join(sorted(chosen)))

    def _release(self, given: Iterable[_DeviceRequest]) -> None:
        """Undo allocations. Another thread may have written them into the checkpoint meanwhile."""
        with self._lock:
            for request in given:
                self._pod_devices.remove(request.uid, request.container.name, request.resource)
                self._unwritten = True

    def _preferred(self, request: _DeviceRequest, endpoint: PluginEndpoint, plugin: DevicePlugin) -> frozenset[str]:
        """Return the plug-in's choice. A failure of this call does not prevent the start."""
        with self._lock:
            pool = self._pool(request)
        if not endpoint.options.preferred or not has_choice(pool, request.number):
            return frozenset()
        try:
            return plugin.preferred(pool.inherited | pool.free, pool.inherited, request.number)
        except PluginError as error:
            _log.warning("%s: cannot get the preferred devices: %s", request, error)
            return frozenset()

    def _reserve(self, request: _DeviceRequest, preferred: frozenset[str]) -> frozenset[str]:
        with self._lock:
            pool = self._pool(request)
            chosen = choose(pool, request.number, preferred)
            if chosen is not None:
                self._pod_devices.reserve(request.resource, chosen)
                return chosen
        available = request.number - missing(pool, request.number)
        hint = f"Requested: {request.number}, Available: {available}; waiting until devices are free"
        raise DevicesPendingError(f"requested number of devices unavailable for {request.resource}", str(request), hint)

    def _pool(self, request: _DeviceRequest) -> DevicePool:
        """Return the pool for a request; the lock must be held."""
        endpoint = self._inventory.get(request.resource) or PluginEndpoint()
        held = self._pod_devices.held(request.uid, request.resource)
        mine = reusable(request.pod, request.container.name, held)
        return DevicePool(endpoint.healthy, self._pod_devices.in_use(request.resource), mine)

    def _free(self, resource: str, devices: Iterable[str]) -> None:
        with self._lock:
            self._pod_devices.release(resource, frozenset(devices))

    def _is_plugins(self, resource: str) -> bool:
        with self._lock:
            return self._inventory.is_known(resource)

    def _endpoint(self, resource: str) -> PluginEndpoint:
        with self._lock:
            endpoint = self._inventory.get(resource) or PluginEndpoint()
        self._plugin(endpoint, resource)
        return endpoint

    def _plugin(self, endpoint: PluginEndpoint, resource: str) -> DevicePlugin:
        if endpoint.plugin is None:
            raise DevicesPendingError("find devices", resource, "its device plug-in is not registered; waiting for it")
        return endpoint.plugin

    def _write_or_warn(self, what: str) -> None:
        try:
            self._write()
        except OSError as error:
            _log.warning("cannot save %s: %s; trying again after the next change", what, error)

    def _write(self) -> None:
        """Write the checkpoint if anything changed. Raises OSError; then the next call tries again."""
        with self._writing:
            with self._lock:
                if not self._unwritten:
                    return
                checkpoint = Checkpoint(self._inventory.devices(), self._pod_devices.pods())
                self._unwritten = False
                self._writes += 1
            try:
                write_checkpoint(self._file, checkpoint)
            except OSError:
                with self._lock:
                    self._unwritten = True
                raise


def _device_requests(pod: Pod) -> list[_DeviceRequest]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return [_DeviceRequest(pod, each, *wanted) for each in containers for wanted in requested_devices(each).items()]


def _allocation_failed(request: _DeviceRequest, error: PluginError) -> Exception:
    if isinstance(error, PluginCallError) and error.code in _AWAY:
        return DevicesPendingError("find devices", request.resource, f"{error}; waiting for the plug-in")
    return AllocationRefusedError(_ALLOCATE, str(request), str(error))
