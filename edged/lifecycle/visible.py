"""What of a pod's facts counts while its postStart hooks run. Pure."""

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from edged.api import Pod
from edged.pods.model import ContainerId, PodFacts


def has_start_hooks(pod: Pod) -> bool:
    """Whether any container of the pod has a postStart hook."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(c.lifecycle is not None and c.lifecycle.post_start is not None for c in containers)


def running_ids(facts: PodFacts) -> frozenset[ContainerId]:
    """The containers that run."""
    return frozenset(container.id for container in facts.containers if container.running)


def visible_facts(pod: Pod, facts: PodFacts, begun: AbstractSet[ContainerId]) -> PodFacts:
    """The facts without those containers that run and are not said to have `begun`: they count as started only once
    their hook is through, and until then neither their status nor their probes show them (a kubelet's pod worker does
    not look at the runtime in that time).
    """
    if not has_start_hooks(pod):
        return facts
    seen = tuple(c for c in facts.containers if not c.running or c.id in begun)
    return facts if len(seen) == len(facts.containers) else replace(facts, containers=seen)
