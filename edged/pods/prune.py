"""Superfluous dead containers and sandboxes of a pod.

One dead container of each name is kept, because the pod's status has its end (`lastState`) and its log can be read
(kubelet's MaxPerPodContainer of 1, KubeEdge's default). A sandbox is kept while it holds such a container or is the
newest.
"""

from msgspec import Struct

from edged.pods.model import ContainerFacts, PodFacts, SandboxFacts


class Prunable(Struct, frozen=True, gc=False):
    """The containers and sandboxes to remove."""

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
