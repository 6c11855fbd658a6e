"""Invariants of evictions."""

from collections.abc import Callable, Sequence
from typing import Final

from modules.apimachinery.types import Pod
from modules.lab.simulate.world import World

EVICTED: Final = "Evicted"
"""The reason in the status of a pod that its node has evicted, or has not admitted under pressure."""
_PRESSURE: Final = 320.0
"""Seconds after which a shortage no longer has an effect: the transition period of 300 s, and two looks at the node."""


class EvictionWatch:
    """The check that a node evicts pods only when it is low on memory, and one at a time.

    Args:
        world: collects violations.
        node: name of the node.
        runs: whether a pod of a uid has a running container.
    """

    def __init__(self, world: World, node: str, runs: Callable[[str], bool]) -> None:
        self._world = world
        self._node = node
        self._runs = runs
        self._evicted: set[str] = set()
        self._ending: list[str] = []
        """Uids of pods that the node has begun to end."""
        self.low = 0
        """Number of active faults that keep the memory short."""
        self._low_until = -_PRESSURE

    @property
    def may_evict(self) -> bool:
        """Whether the node is low on memory, or was so a moment ago."""
        if self.low:
            self._low_until = self._world.now()
        return self._world.now() <= self._low_until + _PRESSURE

    def found(self, pods: Sequence[Pod]) -> None:
        """Check the statuses that the node has found."""
        may_evict = self.may_evict
        for pod in pods:
            if pod.status.reason == EVICTED and pod.metadata.uid not in self._evicted:
                self._evicted.add(pod.metadata.uid)
                if not may_evict:
                    self._violated("no pod is evicted without need", pod.metadata.name)

    def begins(self, uid: str) -> None:
        """Check that the node ends a pod that the cloud wants only when no other one is ending."""
        ending = [each for each in self._ending if each != uid and self._runs(each)]
        if ending and uid not in self._ending:
            text = f"a pod ({uid[:8]}) while {', '.join(each[:8] for each in ending)} still ends"
            self._violated("one pod is evicted at a time", text)
        self._ending = [*ending, uid]

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")
