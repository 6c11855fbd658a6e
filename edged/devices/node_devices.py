"""All of edged that is about devices, assembled."""

import logging
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from beehive import Actor, ModuleContext
from beehive.on_failure import on_failure
from edged.devices.contract import DevicePlugin, DevicePluginTransport, GrpcService
from edged.devices.manager import DeviceManager
from edged.devices.pod_devices import Checkpoint, read_checkpoint
from edged.devices.rules import CHECKPOINT, SOCKET, check_resource, endpoint_in
from edged.errors import DeviceError, PluginError, RegistrationError
from edged.plugins.watcher import Plugin
from edged.sync_events import PluginsChanged, SyncEvents
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

PLUGINS = "device-plugins"
"""Directory below the root (kubelet's)."""
POD_RESOURCES = "pod-resources"
NOTIFY_SECONDS = 1.0
"""Seconds between two notifications of changed devices."""
_REGISTRATION = "v1beta1.Registration"


class _Read(msgspec.Struct, frozen=True):
    """The request to begin."""


class DeviceReader(Actor):
    """The actor that reads the reports of one plug-in until it disconnects, or its connection is closed; blocks
    meanwhile.
    """

    def __init__(self, resource: str, plugin: DevicePlugin, manager: DeviceManager) -> None:
        super().__init__()
        self._resource = resource
        self._plugin = plugin
        self._manager = manager

    def on_start(self) -> None:
        """Begin immediately."""
        self.actor_ref.tell(_Read())

    def on_receive(self, message: object) -> None:
        """Read to the end; no error of a plug-in ends edged."""
        if not isinstance(message, _Read):
            return
        try:
            for devices in self._plugin.watch():
                self._manager.listed(self._resource, self._plugin, devices)
        except PluginError as error:
            _log.debug("device plug-in of %s: %s", self._resource, error)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("device plug-in of %s failed unexpectedly", self._resource)
        self._manager.disconnect(self._resource, self._plugin)
        self.stop()


class ChangeNotifier:
    """The notifier of changes of devices: the first immediately, later ones at most once a second.

    A device that breaks and recovers all the time would otherwise cause an update of the node's status each time.
    """

    def __init__(self, context: ModuleContext, changes: SyncEvents[PluginsChanged]) -> None:
        self._context = context
        self._changes = changes
        self._told_at = float("-inf")
        self._waiting = False

    def notify(self) -> None:
        """Report a change; on the module's thread."""
        if self._waiting:
            return
        wait = self._told_at + NOTIFY_SECONDS - self._context.clock.monotonic()
        if wait <= 0:
            self._now()
        else:
            self._waiting = True
            self._context.after(wait, self._now)

    def _now(self) -> None:
        self._waiting = False
        self._told_at = self._context.clock.monotonic()
        self._changes.handle(PluginsChanged())


class NodeDevices:
    """The devices of the node: the `PluginHandler` of device plug-ins, their readers, and the pod resources API.

    Plug-ins register in two ways, both kubelet's: they call `Register` on `device-plugins/kubelet.sock`, or put a
    socket into `plugins_registry`, where the plug-in watcher finds it. Sockets in `device-plugins` are removed at the
    start: their plug-ins notice it and register again. The edged module makes it on its thread.

    Args:
        context: the module.
        root: the agent's directory.
        transport: connects to plug-ins; None for a node without devices.
        pods: returns all pods of the node.
        changes: take that devices have changed or were freed, once a second at most.
    """

    def __init__(
        self,
        context: ModuleContext,
        root: Path,
        transport: DevicePluginTransport | None,
        *,
        pods: Callable[[], Iterable[Pod]],
        changes: SyncEvents[PluginsChanged],
    ) -> None:
        self._context = context
        self._transport = transport
        self._root = root
        self._directory = root / PLUGINS
        self._pods = pods
        self._registered: dict[Path, tuple[str, DevicePlugin]] = {}
        file = self._directory / CHECKPOINT
        known = read_checkpoint(file, root) if transport is not None else Checkpoint()
        self._notifier = ChangeNotifier(context, changes)
        self.manager = DeviceManager(context.clock, file, known, lambda: context.call_soon(self._notifier.notify))

    def start(self) -> None:
        """Serve registration and the pod resources API. Without a socket the rest of edged goes on."""
        if self._transport is None:
            return
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        _remove_sockets(self._directory)
        registration = GrpcService(self._directory / SOCKET, _REGISTRATION, {"Register": self._on_register})
        lister = GrpcService(self._root / POD_RESOURCES / SOCKET, "v1.PodResourcesLister", self._lister())
        for service in (registration, lister):
            try:
                self._transport.serve(service)
            except DeviceError as error:
                _log.error("%s", error)

    def close(self) -> None:
        """Close plug-ins and sockets."""
        self.manager.close()
        if self._transport is not None:
            self._transport.close()

    def expected_allocatable(self, allocatable: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Return the resources that a new pod may expect, given the node's allocatable ones; empty for a node without
        facts, else see `Inventory.expected`.
        """
        expected = self.manager.expected() if allocatable else {}
        return {**allocatable, **{resource: Fraction(count) for resource, count in expected.items()}}

    def register(self, plugin: Plugin) -> None:
        """Register a plug-in that the plug-in watcher has found. Raises RegistrationError, PluginError."""
        check_resource(plugin.name, plugin.versions)
        self._registered[plugin.endpoint] = (plugin.name, self._connect(plugin.name, plugin.endpoint))

    def deregister(self, plugin: Plugin) -> None:
        """Disconnect a plug-in whose socket was removed. A plug-in that serves the same resource on another socket
        meanwhile stays.
        """
        known = self._registered.pop(plugin.endpoint, None)
        if known is not None:
            self.manager.disconnect(*known)

    def _on_register(self, raw: bytes) -> Any:
        """Handle `Register`; on a thread of the server."""
        from protos.deviceplugin.v1beta1 import api_pb2 as proto  # noqa: PLC0415 - only where there are devices

        request = proto.RegisterRequest.FromString(raw)
        try:
            check_resource(request.resource_name, (request.version,))
            endpoint = endpoint_in(self._directory, request.endpoint, request.resource_name)
            self._connect(request.resource_name, endpoint)
        except (RegistrationError, PluginError) as error:
            _log.warning("a device plug-in was refused: %s", error)
            raise
        return proto.Empty()

    def _connect(self, resource: str, endpoint: Path) -> DevicePlugin:
        if self._transport is None:
            raise RegistrationError("register a device plug-in", resource, "this node has no devices")
        plugin = self._transport.connect(endpoint)
        with on_failure(plugin.close):
            self.manager.connect(resource, plugin)

        def listen() -> None:
            self._context.start_actor(DeviceReader, resource, plugin, self.manager, name=f"edged/devices-{resource}")

        self._context.call_soon(listen)
        return plugin

    def _lister(self) -> dict[str, Callable[[bytes], Any]]:
        """Return the methods of the pod resources API; their generated code is loaded with the first request."""

        def later(name: str) -> Callable[[bytes], Any]:
            def answer(raw: bytes) -> Any:
                from edged.devices.pod_resources import methods  # noqa: PLC0415 - see above

                return methods(self.manager, self._pods)[name](raw)

            return answer

        return {name: later(name) for name in ("List", "Get", "GetAllocatableResources")}


def _remove_sockets(directory: Path) -> None:
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # its plug-in has removed it
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
