"""StatusGenerator: generates the statuses of pods from their records."""

from msgspec.structs import replace

from beehive import Clock
from edged.events.pods import PodEvents
from edged.lifecycle.post_start_hooks import PostStartHooks
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import ContainerFacts, HookFacts, PodFacts, PodUid, RunState
from edged.pods.pod_status.container_status import CREATING, INITIALIZING
from edged.pods.pod_status.phase import FINAL
from edged.pods.pod_status.status import NodeView, pod_status
from edged.probes.manager import ProbeManager
from edged.server.snapshots import Snapshots
from edged.status.manager import StatusManager
from modules.apimachinery.types import ContainerStatus, Nanoseconds, Pod, PodStatus


class StatusGenerator:
    """The generator of the status of a pod, which runs whenever its record changes (kubelet's generateAPIPodStatus),
    and passes it to the `StatusManager` if it differs from the previous one. Lives on the edged module's thread.

    Args:
        clock: the current time.
        pods: the pods of this node.
        probes: results of probes.
        hooks: results of postStart hooks.
        status_manager: sends statuses to the cloud.
        events: records the steps between statuses.
        snapshots: holds the pods for the local HTTP server.
    """

    def __init__(
        self,
        clock: Clock,
        pods: PodManager,
        probes: ProbeManager,
        hooks: PostStartHooks,
        status_manager: StatusManager,
        events: PodEvents,
        snapshots: Snapshots,
    ) -> None:
        self._clock = clock
        self._pods = pods
        self._probes = probes
        self._hooks = hooks
        self._status_manager = status_manager
        self._events = events
        self._snapshots = snapshots
        self._node = NodeView((), "")

    def set_node(self, view: NodeView) -> bool:
        """Take the addresses of the node and the name of its runtime; return whether they differ from those before:
        then all statuses are to be generated again.
        """
        changed, self._node = view != self._node, view
        return changed

    def regenerate(self, record: PodRecord, *, working: bool) -> bool:
        """Generate the status of a pod, and set its probes. Return whether enough is known for a status.

        Args:
            record: the pod.
            working: whether a worker has the pod, and its facts may not count yet.
        """
        uid = record.ref.uid
        facts = settled_facts(record.pod, record.facts, self._hooks.facts(uid), working=working)
        self._probes.update_pod(record.pod, facts, terminating=record.termination_requested)
        can_generate = self._can_generate(record)
        if can_generate:
            pod = record.pod
            status = pod_status(
                pod,
                facts,
                self._node,
                Nanoseconds(self._clock.now_ns()),
                probes=self._probes.facts(uid),
                waiting_reasons=record.waiting_reasons,
                ended=record.terminated,
                kill=record.kill_options,
                is_on_hold=record.is_on_hold,
            )
            is_early = working and _ends_early(record, status)
            if not is_early and (record.set_status(status) or not self._status_manager.has_status(uid)):
                self._events.status_changed(pod, status)
                self._status_manager.set_pod_status(
                    uid, status, is_followed=_is_followed(record, pod.status, working=working)
                )
        elif not record.deleted and self._status_manager.has_status(uid):
            self._status_manager.set_pod_status(uid, record.pod.status)  # in place of a status as of a new pod
        self.publish()
        return can_generate

    def stop(self, record: PodRecord) -> None:
        """Report nothing more of a pod that is removed from the node, and end its probes."""
        self._status_manager.forget_pod(record.ref.uid)
        self._probes.update_pod(record.pod, record.facts, terminating=True)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        self._status_manager.forget_pod(uid)
        self._probes.remove_pod(uid)
        self.publish()

    def publish(self) -> None:
        """Publish the pods with their statuses for the local HTTP server."""
        self._snapshots.pods = tuple([record.pod for record in self._pods])

    def _can_generate(self, record: PodRecord) -> bool:
        """Return whether enough is known for a status, and whether the cloud still accepts one, which it does not for a
        deleted pod.

        Before the runtime was asked, containers that were reported would count as lost (a kubelet waits for its PLEG),
        and their ids would lack the name of the runtime.
        """
        if record.deleted:
            return False
        if record.observed:
            return bool(self._node.runtime) or not record.facts.containers
        status = record.pod.status
        return not status.container_statuses and not status.init_container_statuses


def _ends_early(record: PodRecord, status: PodStatus) -> bool:
    """Return whether a status shows that a pod has ended, or a container that was ready in a sandbox that is there,
    although nobody has requested the pod's end.

    While a worker has the pod that is uncertain: between the end of a container and the start of its successor the
    container, or all of the pod, seems to have ended. (A kubelet generates a status only between two syncs of its pod
    worker.)
    """
    if record.termination_requested:
        return False
    before = record.pod.status
    if status.phase in FINAL and before.phase not in FINAL:
        return True
    has_sandbox = any(sandbox.ready for sandbox in record.facts.sandboxes)
    return has_sandbox and not _ready_ones(before) <= _running_ones(status)


def _is_followed(record: PodRecord, before: PodStatus, *, working: bool) -> bool:
    """Return whether the last status of a pod that is ending makes this one superfluous: nothing has changed since
    `before` but the generation, or all containers have ended, and the worker that stops them is about to finish. (A
    kubelet reports nothing between the begin and the end of its work on such a pod.)
    """
    if not record.termination_requested or record.terminated:
        return False
    has_ended = working and not any(container.running for container in record.facts.containers)
    return has_ended or _without_generations(before) == _without_generations(record.pod.status)


def _without_generations(status: PodStatus) -> PodStatus:
    conditions = tuple(replace(each, observed_generation=0) for each in status.conditions)
    return replace(status, observed_generation=0, conditions=conditions)


def _ready_ones(status: PodStatus) -> set[str]:
    return {each.name for each in _running(status) if each.ready}


def _running_ones(status: PodStatus) -> set[str]:
    return {each.name for each in _running(status)}


def _running(status: PodStatus) -> list[ContainerStatus]:
    every = (*status.init_container_statuses, *status.container_statuses)
    return [each for each in every if each.state.running is not None]


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
    return frozenset(each.container_id.partition("://")[2] for each in _running(pod.status))
