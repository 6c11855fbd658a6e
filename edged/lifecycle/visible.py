"""The facts of a pod while its postStart hooks run: pure functions."""

from msgspec.structs import replace

from edged.api import Pod
from edged.pods.model import ContainerFacts, HookFacts, PodFacts, RunState
from edged.pods.pod_status.container_status import CREATING, INITIALIZING


def settled_facts(pod: Pod, facts: PodFacts, hooks: HookFacts, *, working: bool) -> PodFacts:
    """Return the facts with each container marked as not started while its postStart hook runs, so that neither its
    status nor its probes show it as running. While a worker has the pod (`working`), it may be about to begin the hook
    of a container that it has just started. (A kubelet's pod worker does not read the runtime in that time.) A
    container that was reported as running is left as it is.
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
