"""Which dead containers and sandboxes of a pod are not needed any more.

One dead container is kept for each name, because its end is part of the pod's status (`lastState`) and its
log can be read (kubelet's MaxPerPodContainer of 1, KubeEdge's default); sandboxes are kept while they hold
one of those or are the newest.
"""

from msgspec import Struct

from edged.pods.model import ContainerFacts, PodFacts, SandboxFacts


class Prunable(Struct, frozen=True, gc=False):
    """What may be removed."""

    containers: tuple[ContainerFacts, ...] = ()
    sandboxes: tuple[SandboxFacts, ...] = ()


def prunable(facts: PodFacts, keep: int = 1) -> Prunable:
    """What may be removed when `keep` dead containers of each name are to stay."""
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
