"""Removal of the dead containers and sandboxes that a pod does not need any more."""

import logging

from msgspec.structs import replace

from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import CriError
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.model import PodFacts
from edged.pods.prune import prunable

_log = logging.getLogger(__name__)


class PodPruner:
    """Removes dead containers with their logs, and dead sandboxes. Used by several workers at the same time.

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
            _log.warning("pod %s: what is left of its past cannot be removed: %s", facts.ref, error)
            return facts
        return replace(
            facts,
            containers=tuple(c for c in facts.containers if c not in superfluous.containers),
            sandboxes=tuple(s for s in facts.sandboxes if s not in superfluous.sandboxes),
        )
