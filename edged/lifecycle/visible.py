"""What of a pod's facts counts while its postStart hooks run. Pure."""

from msgspec.structs import replace

from edged.api import Pod
from edged.pods.model import ContainerFacts, PodFacts


def settled_facts(pod: Pod, facts: PodFacts) -> PodFacts:
    """The facts without those containers whose postStart hook may not be through: while a worker is at the pod they do
    not count as started, and neither their status nor their probes show them. (A kubelet's pod worker does not look at
    the runtime in that time.) One that was reported as running stays what it is.
    """
    hooked = _hooked(pod)
    if not hooked:
        return facts
    reported = _reported_running(pod)
    settled = tuple(c for c in facts.containers if not (_starts(c, hooked) and c.id not in reported))
    return facts if len(settled) == len(facts.containers) else replace(facts, containers=settled)


def _starts(container: ContainerFacts, hooked: frozenset[str]) -> bool:
    return container.running and container.name in hooked


def _hooked(pod: Pod) -> frozenset[str]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return frozenset(c.name for c in containers if c.lifecycle is not None and c.lifecycle.post_start is not None)


def _reported_running(pod: Pod) -> frozenset[str]:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return frozenset(s.container_id.partition("://")[2] for s in statuses if s.state.running is not None)
