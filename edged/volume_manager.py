"""VolumeManager: storage drivers and the volumes of pods."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pykka

from beehive import Actor, ModuleContext
from edged.errors import ConfigError
from edged.housekeeping import Chore, Housekeeper
from edged.node.state import LocalNode
from edged.plugins.watcher import PluginHandler, PluginWatcher
from edged.pods.kill_options import KillPod, eviction
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.settings import EdgedSettings
from edged.sync_events import PluginsChanged, SyncEvents
from edged.volumes import Mounts, PodVolumes
from edged.volumes.claims import NodeIdentity
from edged.volumes.csi.controller import ControllerRequest, CsiController
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.model import CSI
from edged.volumes.csi.mounter import CsiMounter
from edged.volumes.directory_usage import DirectoryCounts, limit_of, over_its_limit
from edged.volumes.plan import EMPTY_DIRECTORY
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Pod

PERIOD = 10.0
"""Seconds between two measurements (kubelet's evictionMonitoringPeriod)."""

UNSTAGE_PERIOD = 30.0
"""Seconds between two attempts to unstage volumes that no pod has."""

REGISTRY = "plugins_registry"
"""Directory below the root into which plug-ins put their sockets (kubelet's)."""


class Measure(msgspec.Struct, frozen=True):
    """The request to measure the volumes of these pods."""

    pods: tuple[Pod, ...]


class Measured(msgspec.Struct, frozen=True):
    """The result of a measurement."""

    over: tuple[tuple[PodUid, str], ...]
    """Pods to be evicted, with the reason."""


class EmptyDirMonitor(Actor):
    """The actor that measures the emptyDir volumes of pods with a limit, on a thread of its own.

    It is asked every ten seconds, the period of kubelet's eviction manager; in between a pod may exceed its limit. A
    volume of very many files is counted over several measurements. Volumes in memory are not measured: the kernel
    limits them.

    Args:
        paths: of pods.
        tell: called with each `Measured`; must not block.
    """

    def __init__(self, paths: PodPaths, tell: Callable[[Measured], None]) -> None:
        super().__init__()
        self._paths = paths
        self._tell = tell
        self._counts = DirectoryCounts()

    def on_receive(self, message: object) -> None:
        """Measure the volumes of a `Measure`."""
        if not isinstance(message, Measure):
            return
        self._counts.keep({path for pod in message.pods for path in self._directories(pod).values()})
        reasons = [(PodUid(pod.metadata.uid), self._excess(pod)) for pod in message.pods]
        self._tell(Measured(tuple((uid, reason) for uid, reason in reasons if reason is not None)))

    def _excess(self, pod: Pod) -> str | None:
        sizes = {name: self._counts.measure(path).size for name, path in self._directories(pod).items()}
        return over_its_limit(pod, sizes)

    def _directories(self, pod: Pod) -> dict[str, Path]:
        """Return the paths of the pod's limited volumes; none if a name is invalid: such a volume was never made, and
        the pod's status has the reason.
        """
        uid = PodUid(pod.metadata.uid)
        try:
            return {name: self._paths.volume(uid, EMPTY_DIRECTORY, name) for name in limited_volumes(pod)}
        except ConfigError:
            return {}


def limited_volumes(pod: Pod) -> list[str]:
    """Return the pod's volumes on disk that have a limit."""
    return [volume.name for volume in pod.spec.volumes if limit_of(volume) > 0]


class VolumeManager:
    """The manager that finds storage drivers, stages and publishes volumes, and evicts pods whose volumes are too
    large.

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
        self._unstaging: pykka.ActorRef[Any] | None = None
        self._measuring = False
        self._paths = paths = PodPaths(settings.root, settings.pod_logs)
        self.drivers = CsiDrivers(changes)
        unstage_later = partial(context.call_soon, self._unstage_later)
        self.csi = CsiMounter(paths, self.drivers, mounts, settings.node_name, unstage_later)
        self.volumes = PodVolumes(paths, mounts, memory, csi=self.csi, node=self._here)

    def start(self, **handlers: PluginHandler) -> None:
        """Start to look for plug-ins; `handlers` take those other than storage drivers, by plug-in type."""
        plugins = {"CSIPlugin": self.drivers, **handlers}
        self._context.start_actor(PluginWatcher, self._settings.root / REGISTRY, plugins)
        if self._paths.stages(CSI).is_dir():
            self._unstage_later()

    def _unstage_later(self) -> None:
        """Unstage volumes without a pod, now and then. The actor is started when a driver could not do so, and with an
        agent whose predecessor had volumes staged.
        """
        if self._unstaging is None:
            chore = Chore("unstage volumes", UNSTAGE_PERIOD, self.csi.unstage_unused)
            self._unstaging = self._context.start_actor(Housekeeper, [chore], name="edged/unstaging")

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
        self, operation: str, content: bytes, then: Callable[[dict[str, Any] | AttemptError], None]
    ) -> None:
        """Send a request of the cloud to a storage driver; `then` is called on the module's thread with the answer."""
        if self._controller is None:
            self._controller = self._context.start_actor(CsiController, self.drivers)

        def answered(answer: dict[str, Any] | AttemptError) -> None:
            self._context.call_soon(lambda: then(answer))

        self._controller.tell(ControllerRequest(operation, content, answered))

    def close(self) -> None:
        """Close the connections to the drivers: calls that are under way end."""
        self.drivers.close()

    def _here(self) -> NodeIdentity:
        """Return the node as its volumes see it; with its own labels only, before its object is known."""
        node, name = self._node.state.known, self._settings.node_name
        own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **self._settings.node_labels}
        return NodeIdentity(name, node.metadata.labels if node is not None else own, self._node.status().allocatable)
