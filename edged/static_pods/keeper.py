"""The static pods of this node, as the edged module sees them: their files, their way over the bus, their mirrors."""

from collections.abc import Callable
from pathlib import Path

from beehive import Message, Module, ModuleName, Operation, Resource, ResourceType
from edged.api import Node, Pod
from edged.pods.manager import PodManager
from edged.report.pods import PodReporter
from edged.static_pods.directory import Changes, StaticPodDirectory
from edged.static_pods.manifest import is_mirror, is_static
from edged.static_pods.mirrors import Mirrors
from metamanager.client import MetaTurnClient

FILE = "file"
"""Source of the messages that tell of static pods (a kubelet's name for where they come from)."""


class StaticPods:
    """Lives on the edged module's thread.

    Args:
        module: edged.
        pods: all that edged keeps.
        node: this node, as the cloud has it.
    """

    def __init__(
        self,
        module: Module,
        meta: MetaTurnClient,
        reporter: PodReporter,
        pods: PodManager,
        node: Callable[[], Node | None],
    ) -> None:
        self._module = module
        self._pods = pods
        self._mirrors = Mirrors(meta, reporter, self._wanted, node)
        self._awaited: set[str] | None = set()

    @property
    def all_came(self) -> bool:
        """Whether those of the first look at the files have all reached the keeper.

        They go the way of all messages, and before the last of them is there nobody can say what is an orphan.
        """
        return self._awaited is not None and not self._awaited

    def look_into(self, directory: Path, node: str, tell: Callable[[Changes], None]) -> None:
        """There is a directory of static pods: look into it from now on. `tell` hands what was seen to `found`."""
        self._awaited = None
        self._module.start_actor(StaticPodDirectory, directory, node, tell)

    def found(self, changes: Changes) -> None:
        """The directory was looked at: tell edged on the bus, where a recorded run has it."""
        if self._awaited is None:
            self._awaited = {str(pod["metadata"]["uid"]) for pod in changes.come}
        for operation, pods in ((Operation.DELETE, changes.gone), (Operation.INSERT, changes.come)):
            for pod in pods:
                metadata = pod["metadata"]
                resource = str(Resource(ResourceType.POD, metadata["namespace"], metadata["name"]))
                self._module.send(ModuleName.EDGED, self._module.message(resource, operation, pod, source=FILE))

    def is_mirror(self, pod: Pod) -> bool:
        """Whether a pod of the cloud only stands for a static one, and is not to be run."""
        if not is_mirror(pod):
            return False
        self._mirrors.seen(pod)
        return True

    def taken(self, pod: Pod) -> None:
        """The keeper has taken a pod."""
        if is_static(pod):
            if self._awaited is not None:
                self._awaited.discard(pod.metadata.uid)
            self._mirrors.tick()

    def was_mirror(self, message: Message, namespace: str, name: str, uid: str) -> bool:
        """Whether a message that a pod is gone means a mirror, and not what runs here under its name."""
        return message.route.source != FILE and self._mirrors.gone(namespace, name, uid)

    def listed(self) -> None:
        """All have come: mirrors of others may be deleted."""
        self._mirrors.listed()

    def tick(self) -> None:
        """Make mirrors that are missing, delete those that are too much."""
        self._mirrors.tick()

    def _wanted(self) -> list[Pod]:
        return [record.pod for record in self._pods if is_static(record.pod) and not record.removed]
