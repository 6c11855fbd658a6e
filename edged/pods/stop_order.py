"""The order in which a pod's containers stop (kubelet's terminationOrdering).

Sidecars stop after all other containers, and after the sidecars that were started after them.
"""

from collections.abc import Iterable, Mapping

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
