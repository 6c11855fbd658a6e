"""The static pods of this node, for the edged module."""

from pathlib import Path

from beehive import Message, Module, ModuleName, Operation, Resource, ResourceType
from edged.node.state import LocalNode
from edged.pods.manager import PodManager
from edged.static_pods.directory import StaticPodChanges, StaticPodDirectory
from edged.static_pods.mirror_pods import MirrorPods
from edged.status.manager import StatusManager
from edged.sync_events import SyncEvents
from metamanager.client import AsyncMetaClient
from modules.apimachinery.pods.static import is_mirror, is_static
from modules.apimachinery.types import Pod

FILE = "file"
"""Source of the messages about static pods (kubelet's name for this source of pods)."""


class StaticPodManager:
    """The manager that passes static pods from the directory to edged over the bus, and keeps their mirrors, on the
    edged module's thread.

    Args:
        module: edged.
        meta: sends the mirrors.
        reporter: reports a pod's status as its mirror's.
        pods: all pods of edged.
        node: this node.
    """

    def __init__(
        self,
        module: Module,
        meta: AsyncMetaClient,
        reporter: StatusManager,
        pods: PodManager,
        node: LocalNode,
    ) -> None:
        self._module = module
        self._mirrors = MirrorPods(meta, reporter, pods, node)
        self._awaited: set[str] | None = set()

    @property
    def all_ready(self) -> bool:
        """Whether edged has handled all pods of the first scan.

        They come as messages, and before the last one edged cannot tell which containers are orphans.
        """
        return self._awaited is not None and not self._awaited

    def watch_directory(self, directory: Path, node: str, events: SyncEvents[StaticPodChanges]) -> None:
        """Watch a directory of static pods; `handle_changes` takes the changes."""
        self._awaited = None
        self._module.start_actor(StaticPodDirectory, directory, node, events)

    def handle_changes(self, changes: StaticPodChanges) -> None:
        """Send the changes to edged as messages, which a recorded run has too."""
        if self._awaited is None:
            self._awaited = {str(pod["metadata"]["uid"]) for pod in changes.added}
        for operation, pods in ((Operation.DELETE, changes.removed), (Operation.INSERT, changes.added)):
            for pod in pods:
                metadata = pod["metadata"]
                resource = str(Resource(ResourceType.POD, metadata["namespace"], metadata["name"]))
                self._module.send(ModuleName.EDGED, self._module.message(resource, operation, pod, source=FILE))

    def is_mirror(self, pod: Pod) -> bool:
        """Return whether a pod of the cloud is a mirror pod, which is not run. Notes the mirror."""
        if not is_mirror(pod):
            return False
        self._mirrors.mirror_added(pod)
        return True

    def pod_added(self, pod: Pod) -> None:
        """Handle a pod that edged has added."""
        if is_static(pod):
            if self._awaited is not None:
                self._awaited.discard(pod.metadata.uid)
            self._mirrors.sync()

    def is_mirror_deletion(self, message: Message, namespace: str, name: str, uid: str) -> bool:
        """Return whether the message of a deletion is about a mirror pod, and not about the static pod of its name."""
        return message.route.source != FILE and self._mirrors.mirror_removed(namespace, name, uid)

    def cloud_pods_listed(self) -> None:
        """Allow the deletion of mirrors without a static pod: all pods of the cloud are known."""
        self._mirrors.cloud_pods_listed()

    def sync_mirrors(self) -> None:
        """Create missing mirrors, and delete superfluous ones."""
        self._mirrors.sync()
