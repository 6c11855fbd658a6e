"""The probes of a machine's containers, and what its node makes of their answers."""

from collections.abc import Sequence
from typing import Final

from edged.cri.contract import ExecResult
from modules.apimachinery.types import Pod
from modules.lab.simulate.world import World

READINESS: Final = "ready?"
LIVENESS: Final = "alive?"
PROBED: Final = "probed"
"""The names of probed pods begin with this."""


class ProbeWatch:
    """The answers to the exec probes of containers, and the check that a container counts as ready only after its own
    readiness probe has passed.

    Args:
        world: collects violations.
        node: node of the containers.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self.unready = 0
        """Number of active faults that let readiness probes fail."""
        self.dead = 0
        """Number of active faults that let liveness probes fail."""
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def answer(self, container_id: str, command: Sequence[str]) -> ExecResult:
        """Return the answer to a probe of a container."""
        is_readiness = command[0] == READINESS
        passes = not (self.unready if is_readiness else self.dead)
        if is_readiness and passes:
            self._passed.add(container_id)
        if not is_readiness and not passes:
            self._failed.add(container_id)
        self._world.log_line(self._node, f"{command[0]} {container_id} {'yes' if passes else 'no'}")
        return ExecResult(b"", b"", 0 if passes else 1)

    def may_end(self, container_id: str) -> bool:
        """Return whether a liveness probe of the container has failed."""
        return container_id in self._failed

    def found(self, pods: Sequence[Pod]) -> None:
        """Check the statuses that the node has found."""
        for pod in pods:
            for status in pod.status.container_statuses if pod.metadata.name.startswith(PROBED) else ():
                container_id = status.container_id.partition("://")[2]
                if status.ready and container_id not in self._passed:
                    text = f"{self._node}: {status.name} of {pod.metadata.name}, {container_id}"
                    self._world.violated("a container is ready only after its own probe", text)
