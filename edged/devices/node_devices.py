"""What edged has for devices, put together: plug-ins register, are listened to, and the node can be asked who has what.

Plug-ins come in two ways, both a kubelet's: they call `Register` on `device-plugins/kubelet.sock`, or put a socket into
`plugins_registry`, where the plug-in watcher finds it. What was in `device-plugins` before is removed at the start, by
which plug-ins know that they have to register again.

Made by the edged module, on its thread.
"""

import logging
import stat
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import pykka

from beehive import Actor, Clock, Timer
from edged.api import Pod
from edged.devices.contract import DevicePlugin, DeviceWorld, Service
from edged.devices.errors import DeviceError, RegistrationError
from edged.devices.ledger import Checkpoint, read_checkpoint
from edged.devices.manager import DeviceManager
from edged.devices.reader import DeviceReader
from edged.devices.rules import CHECKPOINT, SOCKET, check_resource, endpoint_in
from edged.plugins.errors import PluginError
from edged.plugins.watcher import Plugin

_log = logging.getLogger(__name__)

PLUGINS = "device-plugins"
"""Directory below the root (kubelet's)."""
POD_RESOURCES = "pod-resources"
NEWS_SECONDS = 1.0
"""Between two times that edged is told of other devices."""
_REGISTRATION = "v1beta1.Registration"


class Host(Protocol):
    """The module that devices belong to."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call in the module's own turn."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn, later."""

    def start_actor(self, actor_class: type[Actor], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[Any]:
        """Start an actor that lives and dies with the module."""


class News:
    """Tells of changes: of the first at once, of what follows it within a second together.

    A device that breaks and recovers all the time would else have the cloud told of it each time.
    """

    def __init__(self, host: Host, tell: Callable[[], None]) -> None:
        self._host = host
        self._tell = tell
        self._told_at = float("-inf")
        self._waiting = False

    def tell(self) -> None:
        """Something is new; in the module's turn."""
        if self._waiting:
            return
        wait = self._told_at + NEWS_SECONDS - self._host.clock.monotonic()
        if wait <= 0:
            self._now()
        else:
            self._waiting = True
            self._host.after(wait, self._now)

    def _now(self) -> None:
        self._waiting = False
        self._told_at = self._host.clock.monotonic()
        self._tell()


class NodeDevices:
    """See the module's docstring. `PluginHandler` for device plug-ins.

    Args:
        host: the module.
        root: the agent's directory.
        world: where plug-ins are; None: this node has no devices.
        pods: all of the node.
        changed: called in the module's turn when other devices are there, or some are free; once a second at most.
    """

    def __init__(
        self,
        host: Host,
        root: Path,
        world: DeviceWorld | None,
        *,
        pods: Callable[[], Iterable[Pod]],
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._world = world
        self._root = root
        self._directory = root / PLUGINS
        self._pods = pods
        self._registered: dict[Path, tuple[str, DevicePlugin]] = {}
        file = self._directory / CHECKPOINT
        known = read_checkpoint(file, root) if world is not None else Checkpoint()
        self._news = News(host, changed)
        self.manager = DeviceManager(host.clock, file, known, lambda: host.call_soon(self._news.tell))

    def start(self) -> None:
        """Let plug-ins register, and answer who has what. Without a socket the rest of edged goes on."""
        if self._world is None:
            return
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        _remove_sockets(self._directory)
        registration = Service(self._directory / SOCKET, _REGISTRATION, {"Register": self._on_register})
        lister = Service(self._root / POD_RESOURCES / SOCKET, "v1.PodResourcesLister", self._lister())
        for service in (registration, lister):
            try:
                self._world.serve(service)
            except DeviceError as error:
                _log.error("%s", error)

    def close(self) -> None:
        """Let go of plug-ins and sockets."""
        self.manager.close()
        if self._world is not None:
            self._world.close()

    def hoped_for(self, allocatable: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """What a new pod may hope for, given what the node can give at this moment. Nothing is known of a node that was
        not looked at; else see `Inventory.expected`.
        """
        expected = self.manager.expected() if allocatable else {}
        return {**allocatable, **{resource: Fraction(count) for resource, count in expected.items()}}

    def register(self, plugin: Plugin) -> None:
        """The plug-in watcher has found one. Raises RegistrationError, PluginError."""
        check_resource(plugin.name, plugin.versions)
        self._registered[plugin.endpoint] = (plugin.name, self._connect(plugin.name, plugin.endpoint))

    def deregister(self, plugin: Plugin) -> None:
        """Its socket is gone. One that serves the same resource on another socket meanwhile stays."""
        known = self._registered.pop(plugin.endpoint, None)
        if known is not None:
            self.manager.disconnect(*known)

    def _on_register(self, raw: bytes) -> Any:
        """A plug-in has called; on a thread of the server's."""
        from protos.deviceplugin.v1beta1 import api_pb2 as proto  # noqa: PLC0415 - only where there are devices

        request = proto.RegisterRequest.FromString(raw)
        try:
            check_resource(request.resource_name, (request.version,))
            endpoint = endpoint_in(self._directory, request.endpoint, request.resource_name)
            self._connect(request.resource_name, endpoint)
        except (RegistrationError, PluginError) as error:
            _log.warning("a device plug-in is not taken: %s", error)
            raise
        return proto.Empty()

    def _connect(self, resource: str, endpoint: Path) -> DevicePlugin:
        if self._world is None:
            raise RegistrationError("register a device plug-in", resource, "this node has no devices")
        plugin = self._world.connect(endpoint)
        try:
            self.manager.connect(resource, plugin)
        except (PluginError, RegistrationError):
            plugin.close()
            raise

        def listen() -> None:
            self._host.start_actor(DeviceReader, resource, plugin, self.manager, name=f"edged/devices-{resource}")

        self._host.call_soon(listen)
        return plugin

    def _lister(self) -> dict[str, Callable[[bytes], Any]]:
        """Its generated code is loaded with the first question."""

        def later(name: str) -> Callable[[bytes], Any]:
            def answer(raw: bytes) -> Any:
                from edged.devices.pod_resources import methods  # noqa: PLC0415 - see above

                return methods(self.manager, self._pods)[name](raw)

            return answer

        return {name: later(name) for name in ("List", "Get", "GetAllocatableResources")}


def _remove_sockets(directory: Path) -> None:
    for path in directory.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink(missing_ok=True)
