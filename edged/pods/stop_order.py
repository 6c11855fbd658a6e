"""Which containers of a pod that ends wait for others to have ended first (kubelet's terminationOrdering): sidecars for
all others, and for the sidecars that were started after them. Pure.
"""

from collections.abc import Iterable, Mapping

from edged.api import Pod
from edged.pods.model import ContainerFacts, ContainerId
from edged.pods.restart import is_sidecar

StopOrder = Mapping[ContainerId, frozenset[ContainerId]]
"""Those that have to have ended before a container is asked to; who is not in it waits for nobody."""


def stop_order(pod: Pod, containers: Iterable[ContainerFacts]) -> StopOrder:
    """The order in which the running ones of these containers are to be stopped."""
    turn = {c.name: len(pod.spec.init_containers) - n for n, c in enumerate(pod.spec.init_containers) if is_sidecar(c)}
    running = [container for container in containers if container.running]

    def earlier(one: ContainerFacts) -> frozenset[ContainerId]:
        return frozenset(other.id for other in running if turn.get(other.name, 0) < turn.get(one.name, 0))

    return {container.id: earlier(container) for container in running if container.name in turn}
