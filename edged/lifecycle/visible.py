"""What of a pod's facts counts while its postStart hooks run, or may be about to. Pure."""

from msgspec.structs import replace

from edged.api import Pod
from edged.pods.container_status import CREATING, INITIALIZING
from edged.pods.model import ContainerFacts, HookFacts, PodFacts, RunState


def settled_facts(pod: Pod, facts: PodFacts, hooks: HookFacts, *, working: bool) -> PodFacts:
    """The facts in which those containers have not started yet whose postStart hook is not through: neither their
    status nor their probes show them as running. While a worker is at the pod (`working`) it may just be starting one,
    whose hook begins in a moment. (A kubelet's pod worker does not look at the runtime in that time.) One that was
    reported as running stays what it is.
    """
    hooked = _hooked(pod) if working else frozenset()
    if not hooked and not hooks.running and not hooks.failed:
        return facts
    reported = _reported_running(pod)
    reason = INITIALIZING if pod.spec.init_containers else CREATING

    def settled(container: ContainerFacts) -> ContainerFacts:
        may_start = container.name in hooked and container.id not in reported
        starts = container.running and (may_start or hooks.holds(container.id))
        return replace(container, state=RunState.CREATED, reason=reason) if starts else container

    return replace(facts, containers=tuple(map(settled, facts.containers)))


def _hooked(pod: Pod) -> frozenset[str]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return frozenset(c.name for c in containers if c.lifecycle is not None and c.lifecycle.post_start is not None)


def _reported_running(pod: Pod) -> frozenset[str]:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return frozenset(s.container_id.partition("://")[2] for s in statuses if s.state.running is not None)
