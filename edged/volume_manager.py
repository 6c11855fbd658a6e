"""VolumeManager: storage drivers and the volumes of pods."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pykka

from beehive import ModuleContext
from edged.errors import EdgedError
from edged.node.state import LocalNode
from edged.plugins.watcher import PluginHandler, PluginWatcher
from edged.pods.kill_options import KillPod, eviction
from edged.pods.manager import PodManager
from edged.pods.paths import PodPaths
from edged.settings import EdgedSettings
from edged.sync_events import PluginsChanged, SyncEvents
from edged.volumes import Mounts, PodVolumes
from edged.volumes.claims import NodeIdentity
from edged.volumes.csi.controller import ControllerRequest, CsiController
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.mounter import CsiMounter
from edged.volumes.empty_dir_monitor import PERIOD, EmptyDirMonitor, Measure, Measured, limited_volumes

REGISTRY = "plugins_registry"
"""Directory below the root into which plug-ins put their sockets (kubelet's)."""


class VolumeManager:
    """Finds storage drivers, stages and publishes their volumes, and evicts pods whose volumes grow too large.

    It is a kubelet's volume manager and plug-in manager. Used on the edged module's thread, except `volumes`, which pod
    workers use.

    Args:
        context: the module.
        settings: edged's.
        mounts: mount points of the node.
        memory: bytes of the node that are for pods.
        node: the state of this node; volumes are matched with its labels.
        changes: take that a driver was added or removed.
    """

    def __init__(
        self,
        context: ModuleContext,
        settings: EdgedSettings,
        mounts: Mounts,
        memory: int,
        node: LocalNode,
        changes: SyncEvents[PluginsChanged],
    ) -> None:
        self._context = context
        self._settings = settings
        self._node = node
        self._controller: pykka.ActorRef[CsiController] | None = None
        self._monitor: pykka.ActorRef[EmptyDirMonitor] | None = None
        self._measuring = False
        self._paths = paths = PodPaths(settings.root, settings.pod_logs)
        self.drivers = CsiDrivers(changes)
        self.csi = CsiMounter(paths, self.drivers, mounts, settings.node_name)
        self.volumes = PodVolumes(paths, mounts, memory, csi=self.csi, node=self._here)

    def start(self, **handlers: PluginHandler) -> None:
        """Start to look for plug-ins; `handlers` take those other than storage drivers, by plug-in type."""
        plugins = {"CSIPlugin": self.drivers, **handlers}
        self._context.start_actor(PluginWatcher, self._settings.root / REGISTRY, plugins)

    def watch_sizes(self, pods: PodManager, kills: SyncEvents[KillPod]) -> None:
        """Measure the volumes of pods that have a size limit, and evict the pods that exceed one. The actor that
        measures is started with the first such pod.
        """
        self._context.every(PERIOD, partial(self._measure, pods, kills))

    def _measure(self, pods: PodManager, kills: SyncEvents[KillPod]) -> None:
        limited = tuple(pod for pod in pods.active_pods() if limited_volumes(pod))
        if not limited or self._measuring:
            return
        if self._monitor is None:
            measured = partial(self._measured, kills)
            self._monitor = self._context.start_actor(
                EmptyDirMonitor, self._paths, lambda result: self._context.call_soon(partial(measured, result))
            )
        self._measuring = True
        self._monitor.tell(Measure(limited))

    def _measured(self, kills: SyncEvents[KillPod], result: Measured) -> None:
        self._measuring = False
        for uid, reason in result.over:
            kills.handle(eviction(uid, reason))

    def handle_csi_request(
        self, operation: str, content: bytes, then: Callable[[dict[str, Any] | EdgedError], None]
    ) -> None:
        """Send a request of the cloud to a storage driver; `then` is called on the module's thread with the answer."""
        if self._controller is None:
            self._controller = self._context.start_actor(CsiController, self.drivers)

        def answered(answer: dict[str, Any] | EdgedError) -> None:
            self._context.call_soon(lambda: then(answer))

        self._controller.tell(ControllerRequest(operation, content, answered))

    def close(self) -> None:
        """Close the connections to the drivers: calls that are under way end."""
        self.drivers.close()

    def _here(self) -> NodeIdentity:
        """Return the node for the affinity of volumes; with its own labels only, before its object is known."""
        node, name = self._node.state.known, self._settings.node_name
        if node is not None:
            return NodeIdentity(name, node.metadata.labels)
        return NodeIdentity(
            name, {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **self._settings.node_labels}
        )
