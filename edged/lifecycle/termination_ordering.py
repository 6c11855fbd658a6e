"""The order in which a pod's containers stop, and what lets them stop so (kubelet's terminationOrdering).

Sidecars stop after all other containers, and after the sidecars that were started after them.
"""

import threading
from collections.abc import Iterable, Mapping

from edged.lifecycle.running_grace_periods import GracePeriod
from edged.lifecycle.waits import Wait, WaitEndedError, WaitOverError, Waits
from edged.pods.model import ContainerFacts, ContainerId
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Pod

StopOrder = Mapping[ContainerId, frozenset[ContainerId]]
"""For each waiting container, the containers that must have ended before it is stopped. A container without an entry
does not wait.
"""


def stop_order(pod: Pod, containers: Iterable[ContainerFacts]) -> StopOrder:
    """Return the order of these containers' stops, of running ones only."""
    rank = {c.name: len(pod.spec.init_containers) - n for n, c in enumerate(pod.spec.init_containers) if is_sidecar(c)}
    running = [container for container in containers if container.running]

    def earlier(one: ContainerFacts) -> frozenset[ContainerId]:
        return frozenset(other.id for other in running if rank.get(other.name, 0) < rank.get(one.name, 0))

    return {container.id: earlier(container) for container in running if container.name in rank}


class TerminationOrdering:
    """The order in which containers end: each waits for the containers before it, on a thread of its own.

    Args:
        waits: end the waiting when edged ends.
        order: the containers to stop, and for each the containers that end before it (`stop_order`).
    """

    def __init__(self, waits: Waits, order: StopOrder) -> None:
        self._waits = waits
        self._lock = threading.Lock()
        self._before = {container: set(others) for container, others in order.items()}
        self._waiting: dict[ContainerId, Wait] = {}

    def wait_for_turn(self, container: ContainerId, grace_period: GracePeriod) -> None:
        """Wait until all containers before this one have ended, its grace period is over, or edged ends: the runtime
        accepts no calls then (kubelet's waitForTurn).
        """
        with self._lock:
            if not self._before.get(container):
                return
        try:
            self._waits.wait(lambda wait: self._begin(container, wait), limit=grace_period)
        except (WaitOverError, WaitEndedError):
            return

    def container_terminated(self, container: ContainerId) -> None:
        """Note that a container has ended, and let those go on that waited for it only."""
        with self._lock:
            for others in self._before.values():
                others.discard(container)
            free = [wait for each, wait in self._waiting.items() if not self._before.get(each)]
        for wait in free:
            wait.end()

    def _begin(self, container: ContainerId, wait: Wait) -> None:
        with self._lock:
            self._waiting[container] = wait
            free = not self._before.get(container)
        if free:
            wait.end()
