"""Device plug-ins in memory, in virtual time: a `DevicePluginTransport` for edged alone on the bus."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from beehive import Runtime
from edged.devices.contract import DevicePlugin, GrpcService
from edged.devices.model import Device, PluginOptions
from edged.errors import EdgedError, PluginCallError
from edged.pods.config.device_options import DeviceNode, DeviceRunContainerOptions
from protos.deviceplugin.v1beta1 import api_pb2 as proto

RESOURCE = "example.com/dev"
_NOTHING_MORE = PluginOptions()


class FakeDevicePlugin:
    """One plug-in with its devices; records its calls. Connections to it end when it goes."""

    def __init__(self, actors: Runtime, *devices: str, options: PluginOptions = _NOTHING_MORE) -> None:
        self._actors = actors
        self.devices = tuple(Device(device) for device in devices)
        self.said = options
        self.allocated: list[list[str]] = []
        self.prepared: list[list[str]] = []
        self.asked: list[tuple[list[str], list[str], int]] = []
        """Which it could prefer, which it must, how many."""
        self.prefers: frozenset[str] = frozenset()
        self.failure: Exception | None = None
        """The error that `allocate` raises."""
        self.seconds = 0.0
        """Duration of `allocate`."""
        self.there = True
        self._told = actors.future()

    def say(self, *devices: Device) -> None:
        """Other devices, or others that are healthy."""
        self.devices = devices
        self._wake()

    def go(self) -> None:
        """The plug-in ends."""
        self.there = False
        self._wake()

    def _wake(self) -> None:
        told, self._told = self._told, self._actors.future()
        told.set(None)

    def connect(self) -> _Connection:
        """A connection."""
        return _Connection(self)

    def take_time(self) -> None:
        """As long as `allocate` takes."""
        if self.seconds:
            over = self._actors.future()
            self._actors.clock.after(self.seconds, over.set)
            over.get()

    def next_word(self) -> None:
        """Wait until something is new."""
        self._told.get()


class _Connection:
    def __init__(self, plugin: FakeDevicePlugin) -> None:
        self._plugin = plugin
        self._closed = False

    def _check(self, method: str) -> FakeDevicePlugin:
        if self._closed or not self._plugin.there:
            raise PluginCallError(method, "in memory", "UNAVAILABLE", "it is gone")
        return self._plugin

    def options(self) -> PluginOptions:
        return self._check("GetDevicePluginOptions").said

    def watch(self) -> Iterator[tuple[Device, ...]]:
        while True:
            yield self._check("ListAndWatch").devices
            self._plugin.next_word()

    def preferred(self, available: AbstractSet[str], must: AbstractSet[str], count: int) -> frozenset[str]:
        self._plugin.asked.append((sorted(available), sorted(must), count))
        return self._check("GetPreferredAllocation").prefers

    def allocate(self, devices: AbstractSet[str]) -> DeviceRunContainerOptions:
        plugin = self._check("Allocate")
        plugin.allocated.append(sorted(devices))
        plugin.take_time()
        if plugin.failure is not None:
            raise plugin.failure
        return DeviceRunContainerOptions(
            envs={"DEVICES": ",".join(sorted(devices))}, nodes=(DeviceNode("/dev/x", "/dev/null", "rw"),)
        )

    def pre_start(self, devices: AbstractSet[str]) -> None:
        self._check("PreStartContainer").prepared.append(sorted(devices))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._plugin._wake()


class FakeDevicePlugins:
    """A `DevicePluginTransport` without sockets."""

    def __init__(self) -> None:
        self.services: dict[str, GrpcService] = {}
        self.plugins: dict[str, FakeDevicePlugin] = {}
        """By the names of their sockets."""

    def serve(self, service: GrpcService) -> None:
        self.services[service.name] = service

    def connect(self, endpoint: Path) -> DevicePlugin:
        return self.plugins[endpoint.name].connect()

    def close(self) -> None:
        self.services.clear()

    def register(self, plugin: FakeDevicePlugin, endpoint: str = "dev.sock", **fields: str) -> None:
        """The plug-in calls `Register`. Raises as edged answers."""
        self.plugins[endpoint] = plugin
        said: dict[str, Any] = {"version": "v1beta1", "resource_name": RESOURCE, "endpoint": endpoint, **fields}
        self.ask("v1beta1.Registration", "Register", proto.RegisterRequest(**said))

    def ask(self, service: str, method: str, request: Any) -> Any:
        """Ask the node something."""
        return self.services[service].methods[method](request.SerializeToString())


def refusal(plugins: FakeDevicePlugins, plugin: FakeDevicePlugin, **fields: str) -> str:
    """Why a registration is refused; empty when it is not."""
    try:
        plugins.register(plugin, **fields)
    except EdgedError as error:
        return str(error)
    return ""
