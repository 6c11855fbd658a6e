"""The pod conditions that the node owns: status, reason, message and time of the last transition.

Texts and order are a kubelet's, because people and controllers read them: PodReadyToStartContainers, Initialized,
Ready, ContainersReady, PodScheduled; then `HeldUpgrade` of a pod that waits, or has waited, for the owner of the node.
Other writers' conditions are kept in front of them. `DisruptionTarget` is set only when this node ends the pod for its
own sake (`KillOptions.disruption`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from edged.pods.kill_options import KillOptions
from edged.pods.model import PodFacts
from edged.pods.pod_status.phase import Phase, has_started
from edged.pods.sandbox import pod_sandbox_changed
from modules.apimachinery.pods.node_conditions import (
    BY_A_NODE,
    CONTAINERS_READY,
    DISRUPTION_TARGET,
    HELD,
    INITIALIZED,
    OURS,
    READY,
    READY_TO_START,
    SCHEDULED,
    is_ours,
)
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, ContainerStatus, Pod, PodCondition, PodStatus, Time

_NO_STATUSES = "UnknownContainerStatuses"
_NOT_READY = "ContainersNotReady"
_HELD: Final = PodCondition(
    type=HELD,
    status="True",
    reason="HoldUpgradeEnabled",
    message="the pod waits for a release by the owner of the node: edgecore release",
)
_RELEASED: Final = PodCondition(type=HELD, status="False", reason="Released")


def pod_conditions(
    pod: Pod,
    facts: PodFacts,
    status: PodStatus,
    old: PodStatus,
    now: Time,
    kill: KillOptions | None = None,
    *,
    is_on_hold: bool = False,
) -> tuple[PodCondition, ...]:
    """Return all conditions for a status with phase and container statuses.

    A condition of the same status keeps the time of its last transition from `old`. Each names the generation of the
    pod (Kubernetes since 1.34).
    """
    disruption = _disruption(kill)
    generation = pod.metadata.generation
    before = {condition.type: condition for condition in old.conditions}
    others = tuple(
        c for c in pod.status.conditions if c.type not in OURS and not (disruption and c.type == DISRUPTION_TARGET)
    )
    containers_ready = _containers_ready(pod, status)
    ours = (
        PodCondition(type=READY_TO_START, status=_truth(not pod_sandbox_changed(pod, facts).changed)),
        _initialized(pod, status),
        _ready(pod, others, containers_ready),
        containers_ready,
        PodCondition(type=SCHEDULED, status="True"),
        *disruption,
        *_hold(before, is_on_hold=is_on_hold),
    )
    return others + tuple([_since(replace(each, observed_generation=generation), before, now) for each in ours])


def with_conditions_of_others(mine: PodStatus, theirs: PodStatus) -> PodStatus:
    """Return this node's status of a pod with the conditions that others set in the cloud, such as readiness gates.

    This node's own DisruptionTarget stays, with its time, when the cloud's status is older.
    """
    others = [condition for condition in theirs.conditions if condition.type not in OURS]
    given = {condition.type for condition in others}
    own = [c for c in mine.conditions if is_ours(c.type, c.reason) and c.type not in given]
    return replace(mine, conditions=(*others, *own))


def with_parts_of_others(mine: PodStatus, theirs: PodStatus) -> PodStatus:
    """Return this node's status of a pod to write over the cloud's: what others decide stays as the cloud has it. Of a
    DisruptionTarget this node's counts (kubelet's mergePodStatus).
    """
    own = [condition for condition in mine.conditions if is_ours(condition.type, condition.reason)]
    names = OURS.union([condition.type for condition in own])
    others = [condition for condition in theirs.conditions if condition.type not in names]
    conditions = (*others, *own)
    return replace(mine, conditions=conditions, nominated_node_name=theirs.nominated_node_name, resize=theirs.resize)


def _disruption(kill: KillOptions | None) -> tuple[PodCondition, ...]:
    if kill is None or not kill.disruption:
        return ()
    return (PodCondition(type=DISRUPTION_TARGET, status="True", reason=BY_A_NODE, message=kill.message),)


def _hold(old: Mapping[str, PodCondition], *, is_on_hold: bool) -> tuple[PodCondition, ...]:
    """Return the condition of a pod that waits for a release, or has waited; none for other pods."""
    if is_on_hold:
        return (_HELD,)
    return (_RELEASED,) if HELD in old else ()


def _since(condition: PodCondition, old: Mapping[str, PodCondition], now: Time) -> PodCondition:
    before = old.get(condition.type)
    unchanged = before is not None and before.status == condition.status and before.last_transition_time
    return replace(condition, last_transition_time=unchanged or now)


def _initialized(pod: Pod, status: PodStatus) -> PodCondition:
    inits = pod.spec.init_containers
    if inits and not status.init_container_statuses:
        return PodCondition(type=INITIALIZED, status="False", reason=_NO_STATUSES)
    known = {s.name: s for s in status.init_container_statuses}
    unknown = [c.name for c in inits if c.name not in known]
    incomplete = [c.name for c in inits if c.name in known and not _init_complete(c, known[c.name])]
    if status.phase == Phase.SUCCEEDED and not unknown:
        return PodCondition(type=INITIALIZED, status="True", reason="PodCompleted")
    if any(has_started(s) for s in status.container_statuses):
        return PodCondition(type=INITIALIZED, status="True")
    message = _problems(("unknown", unknown), ("incomplete", incomplete))
    if message:
        return PodCondition(type=INITIALIZED, status="False", reason="ContainersNotInitialized", message=message)
    return PodCondition(type=INITIALIZED, status="True")


def _init_complete(container: Container, status: ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def _containers_ready(pod: Pod, status: PodStatus) -> PodCondition:
    if not status.container_statuses:
        return PodCondition(type=CONTAINERS_READY, status="False", reason=_NO_STATUSES)
    known = {s.name: s for s in status.init_container_statuses + status.container_statuses}
    names = [c.name for c in pod.spec.init_containers if is_sidecar(c)]
    names += [c.name for c in pod.spec.containers]
    unknown = [name for name in names if name not in known]
    unready = [name for name in names if name in known and not known[name].ready]
    if status.phase == Phase.SUCCEEDED and not unknown:
        return PodCondition(type=CONTAINERS_READY, status="False", reason="PodCompleted")
    if status.phase == Phase.FAILED:
        return PodCondition(type=CONTAINERS_READY, status="False", reason="PodFailed")
    message = _problems(("unknown", unknown), ("unready", unready))
    if message:
        return PodCondition(type=CONTAINERS_READY, status="False", reason=_NOT_READY, message=message)
    return PodCondition(type=CONTAINERS_READY, status="True")


def _ready(pod: Pod, others: Sequence[PodCondition], containers_ready: PodCondition) -> PodCondition:
    if containers_ready.status != "True":
        return replace(containers_ready, type=READY)
    states = {condition.type: condition.status for condition in others}
    closed = [
        _gate_text(gate.condition_type, states.get(gate.condition_type))
        for gate in pod.spec.readiness_gates
        if states.get(gate.condition_type) != "True"
    ]
    if closed:
        return PodCondition(type=READY, status="False", reason="ReadinessGatesNotReady", message=", ".join(closed))
    return PodCondition(type=READY, status="True")


def _gate_text(gate: str, state: str | None) -> str:
    if state is None:
        return f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    return f'the status of pod readiness gate "{gate}" is not "True", but {state}'


def _problems(*groups: tuple[str, list[str]]) -> str:
    return ", ".join(f"containers with {what} status: [{' '.join(names)}]" for what, names in groups if names)


def _truth(value: bool) -> str:
    return "True" if value else "False"
