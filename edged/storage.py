"""What edged has for volumes, put together: drivers that register, what they stage and publish, and the pods' volumes.

Made by the edged module and used on its thread, but for `volumes`, which workers use.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import pykka

from beehive import Actor
from edged.api import Node, Pod
from edged.errors import EdgedError
from edged.plugins.watcher import PluginHandler, PluginWatcher
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.settings import EdgedSettings
from edged.volumes import Mounts, PodVolumes
from edged.volumes.claims import Here
from edged.volumes.csi.controller import CsiController, Request
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.mounter import CsiMounter
from edged.volumes.size_watch import PERIOD, Measure, Measured, SizeWatch, limited_volumes

REGISTRY = "plugins_registry"
"""Directory, below the root, into which plug-ins put their sockets (kubelet's)."""


class Host(Protocol):
    """The module that storage belongs to."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call in the module's own turn."""

    def every(self, seconds: float, function: Callable[[], None]) -> object:
        """Call in the module's own turn, again and again."""

    def start_actor(self, actor_class: type[Actor], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[Any]:
        """Start an actor that lives and dies with the module."""


class Storage:
    """See the module's docstring.

    Args:
        host: the module.
        settings: edged's.
        mounts: of the node.
        memory: bytes that the node has for pods.
        node: as the cloud has it; None while it has not said so.
        changed: called in the module's turn when a driver has come or gone.
    """

    def __init__(
        self,
        host: Host,
        settings: EdgedSettings,
        mounts: Mounts,
        memory: int,
        *,
        node: Callable[[], Node | None],
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._settings = settings
        self._node = node
        self._controller: pykka.ActorRef[CsiController] | None = None
        self._watch: pykka.ActorRef[SizeWatch] | None = None
        self._measuring = False
        self._measured: Callable[[Measured], None] = lambda _: None
        self._paths = paths = PodPaths(settings.root, settings.pod_logs)
        self.drivers = CsiDrivers(lambda: host.call_soon(changed))
        self.csi = CsiMounter(paths, self.drivers, mounts, settings.node_name)
        self.volumes = PodVolumes(paths, mounts, memory, csi=self.csi, here=self._here)

    def start(self, **handlers: PluginHandler) -> None:
        """Look for plug-ins; `handlers` take other kinds than storage drivers, by their type."""
        self._host.start_actor(PluginWatcher, self._settings.root / REGISTRY, {"CSIPlugin": self.drivers, **handlers})

    def watch_sizes(self, pods: Callable[[], Iterable[Pod]], over: Callable[[PodUid, str], None]) -> None:
        """Measure volumes that have a limit; `pods` are those that are not ending, `over` is told of each that has
        filled one, in the module's turn.
        """

        def look() -> None:
            limited = tuple(pod for pod in pods() if limited_volumes(pod))
            if limited and not self._measuring:
                self._measuring = True
                self._sizes().tell(Measure(limited))

        def measured(result: Measured) -> None:
            self._measuring = False
            for uid, reason in result.over:
                over(uid, reason)

        self._measured = measured
        self._host.every(PERIOD, look)

    def _sizes(self) -> pykka.ActorRef[SizeWatch]:
        """Made with the first pod that needs it."""
        if self._watch is None:

            def tell(result: Measured) -> None:
                self._host.call_soon(lambda: self._measured(result))

            self._watch = self._host.start_actor(SizeWatch, self._paths, tell)
        return self._watch

    def operate(self, operation: str, content: bytes, then: Callable[[dict[str, Any] | EdgedError], None]) -> None:
        """Carry out what the cloud asks of the node's driver; `then` is called in the module's turn."""
        if self._controller is None:
            self._controller = self._host.start_actor(CsiController, self.drivers)

        def answered(answer: dict[str, Any] | EdgedError) -> None:
            self._host.call_soon(lambda: then(answer))

        self._controller.tell(Request(operation, content, answered))

    def close(self) -> None:
        """Let go of the drivers: calls that are under way end."""
        self.drivers.close()

    def _here(self) -> Here:
        """The node for the affinity of volumes. Until the cloud has said which labels it has, its own count."""
        node, name = self._node(), self._settings.node_name
        if node is not None:
            return Here(name, node.metadata.labels)
        return Here(name, {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **self._settings.node_labels})
