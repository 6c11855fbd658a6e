"""Removal of the dead containers and sandboxes that a pod no longer needs."""

import logging

from msgspec import Struct
from msgspec.structs import replace

from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import CriError
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.model import ContainerFacts, PodFacts, SandboxFacts


class Prunable(Struct, frozen=True, gc=False):
    """The superfluous dead containers and sandboxes of a pod.

    One dead container of each name is kept, because the pod's status has its end (`lastState`) and its log can be read
    (kubelet's MaxPerPodContainer of 1, KubeEdge's default). A sandbox is kept while it holds such a container or is the
    newest.
    """

    containers: tuple[ContainerFacts, ...] = ()
    sandboxes: tuple[SandboxFacts, ...] = ()


def prunable(facts: PodFacts, keep: int = 1) -> Prunable:
    """Return the containers and sandboxes to remove when `keep` dead containers of each name stay."""
    kept: dict[str, int] = {}
    dead = []
    homes = set()
    for container in facts.containers:
        if not container.running and kept.get(container.name, 0) >= keep:
            dead.append(container)
            continue
        homes.add(container.sandbox_id)
        if not container.running:
            kept[container.name] = kept.get(container.name, 0) + 1
    sandboxes = [s for s in facts.sandboxes[1:] if not s.ready and s.id not in homes]
    return Prunable(tuple(dead), tuple(sandboxes))


_log = logging.getLogger(__name__)


class PodPruner:
    """The pruner of dead containers with their logs, and of dead sandboxes. Used by several workers at the same time.

    Args:
        runtime: the container runtime.
        directories: logs and termination messages.
        kept: number of dead containers of each name that a pod keeps.
    """

    def __init__(self, runtime: ContainerRuntime, directories: PodDirectories, kept: int = 1) -> None:
        self._runtime = runtime
        self._directories = directories
        self._kept = kept

    def prune(self, facts: PodFacts) -> PodFacts:
        """Remove containers and sandboxes, and return the facts without them. A failure is left for the next sync."""
        superfluous = prunable(facts, self._kept)
        try:
            for container in superfluous.containers:
                self._runtime.remove_container(ContainerId(container.id))
                self._directories.remove_container(facts.ref, container.name, container.attempt)
            for sandbox in superfluous.sandboxes:
                self._runtime.remove_pod_sandbox(SandboxId(sandbox.id))
        except (CriError, OSError) as error:
            _log.warning("pod %s: its old containers and sandboxes cannot be removed: %s", facts.ref, error)
            return facts
        return replace(
            facts,
            containers=tuple(c for c in facts.containers if c not in superfluous.containers),
            sandboxes=tuple(s for s in facts.sandboxes if s not in superfluous.sandboxes),
        )
