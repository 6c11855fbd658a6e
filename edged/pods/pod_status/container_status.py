"""Container statuses: state, last state, restarts, readiness (kubelet's convertToAPIContainerStatuses).

They merge three sources: the runtime's present facts, the waiting reasons of workers (back-off, a failed pull), and the
last reported statuses, which fill in when the runtime has forgotten a container.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from edged.pods.model import ContainerFacts, PodFacts, ProbeFacts, RunState
from edged.pods.restart import restarts_after, should_be_started
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Nanoseconds,
    Pod,
    Time,
    VolumeMount,
    VolumeMountStatus,
    format_time,
)

CREATING = "ContainerCreating"
INITIALIZING = "PodInitializing"
LOST_REASON = "ContainerStatusUnknown"
LOST_EXIT_CODE = 137
_LOST_DELETED = "The container could not be located when the pod was terminated"
_LOST_RUNNING = "The container could not be located when the pod was deleted.  The container used to be Running"


class StatusInput(Struct, frozen=True, gc=False):
    """Input of container statuses.

    `runtime` is the prefix of container ids (`containerd`); `waiting_reasons` has, by container name, why a worker
    could not start it; `is_recursive` is whether the runtime has recursive read-only mounts.
    """

    pod: Pod
    facts: PodFacts
    probes: ProbeFacts
    runtime: str
    waiting_reasons: Mapping[str, ContainerStateWaiting]
    is_recursive: bool


def regular_statuses(given: StatusInput, old: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the regular containers, sorted by name as a kubelet reports them."""
    statuses = _statuses(given, given.pod.spec.containers, old, is_init=False)
    return tuple(sorted(statuses, key=lambda status: status.name))


def init_statuses(given: StatusInput, old: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the init containers in the order of the spec."""
    return tuple(_statuses(given, given.pod.spec.init_containers, old, is_init=True))


def ephemeral_statuses(given: StatusInput, old: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the ephemeral containers, sorted by name; `ready` and `started` are not set."""
    before = {status.name: status for status in old}
    statuses = []
    for container in given.pod.spec.ephemeral_containers:
        old_status = before.get(container.name)
        status = _known(given, container, old_status)
        waiting = given.waiting_reasons.get(container.name)
        if (
            given.facts.newest(container.name) is None
            and old_status is not None
            and old_status.state.running is not None
        ):
            status = replace(old_status, state=lost(_LOST_RUNNING))
        elif waiting is not None and status.state.waiting is not None:
            status = replace(status, state=ContainerState(waiting=waiting))
        statuses.append(replace(status, volume_mounts=_mounts(given, container)))
    return tuple(sorted(statuses, key=lambda status: status.name))


def lost(message: str = _LOST_DELETED) -> ContainerState:
    """Return the state of a container that disappeared without a known exit code; it counts as failed."""
    return ContainerState(
        terminated=ContainerStateTerminated(reason=LOST_REASON, message=message, exit_code=LOST_EXIT_CODE)
    )


def _statuses(
    given: StatusInput, containers: Iterable[Container], old: Iterable[ContainerStatus], *, is_init: bool
) -> list[ContainerStatus]:
    before = {status.name: status for status in old}
    statuses = []
    for container in containers:
        status = _known(given, container, before.get(container.name))
        status = _with_waiting_reason(given, container, status, is_init=is_init)
        status = _with_health(given, container, status, is_init=is_init)
        statuses.append(replace(status, volume_mounts=_mounts(given, container)))
    return statuses


def _known(given: StatusInput, container: Container, old: ContainerStatus | None) -> ContainerStatus:
    """Return the status by the runtime's facts; without any, by the last report."""
    instances = [c for c in given.facts.containers if c.name == container.name]
    if not instances:
        return _forgotten(given, container, old)
    newest = instances[0]
    former = next((c for c in instances[1:] if c.state is RunState.EXITED), None)
    if former is not None:
        last_state = ContainerState(terminated=_ending(given, former))
    else:
        last_state = old.last_state if old is not None else ContainerState()
    status = ContainerStatus(
        name=container.name,
        state=_state(given, newest, old),
        last_state=last_state,
        restart_count=newest.attempt,
        image=newest.image,
        image_id=newest.image_ref,
        container_id=f"{given.runtime}://{newest.id}",
    )
    if newest.state is RunState.UNKNOWN and old is not None and old.state.running is not None:
        return replace(status, restart_count=old.restart_count + 1)
    return status


def _forgotten(given: StatusInput, container: Container, old: ContainerStatus | None) -> ContainerStatus:
    reason = INITIALIZING if given.pod.spec.init_containers else CREATING
    status = ContainerStatus(
        name=container.name,
        image=container.image,
        state=ContainerState(waiting=ContainerStateWaiting(reason=reason)),
    )
    if old is None:
        return status
    if old.state.terminated is not None:
        return old
    status = replace(status, restart_count=old.restart_count, last_state=old.last_state)
    if old.state.running is None:
        return status
    restarts = old.restart_count + (given.pod.metadata.deletion_timestamp is None)
    return replace(status, restart_count=restarts, last_state=lost(_LOST_RUNNING))


def _state(given: StatusInput, facts: ContainerFacts, old: ContainerStatus | None) -> ContainerState:
    if facts.state is RunState.RUNNING:
        return ContainerState(running=ContainerStateRunning(started_at=_time(facts.started_at)))
    if facts.state is RunState.EXITED:
        return ContainerState(terminated=_ending(given, facts))
    if facts.state is RunState.UNKNOWN and old is not None and old.state.running is not None:
        return lost()
    return ContainerState(waiting=ContainerStateWaiting(reason=facts.reason))


def _ending(given: StatusInput, facts: ContainerFacts) -> ContainerStateTerminated:
    return ContainerStateTerminated(
        exit_code=facts.exit_code,
        reason=facts.reason,
        message=facts.message,
        started_at=_time(facts.started_at),
        finished_at=_time(facts.finished_at),
        container_id=f"{given.runtime}://{facts.id}",
    )


def _with_waiting_reason(
    given: StatusInput, container: Container, status: ContainerStatus, *, is_init: bool
) -> ContainerStatus:
    """Return the status of a container that a worker could not start: waiting for that reason, its end as the last
    state.
    """
    waiting = given.waiting_reasons.get(container.name)
    if waiting is None or not _is_due(given, container, is_init=is_init):
        return status
    last_state = status.state if status.state.terminated is not None else status.last_state
    return replace(status, state=ContainerState(waiting=waiting), last_state=last_state)


def _is_due(given: StatusInput, container: Container, *, is_init: bool) -> bool:
    newest = given.facts.newest(container.name)
    if not is_init:
        return should_be_started(given.pod, container, newest)
    if given.pod.metadata.deletion_timestamp is not None or (newest is not None and newest.running):
        return False
    if newest is None or newest.state in (RunState.CREATED, RunState.UNKNOWN):
        return True
    return is_sidecar(container) or (not newest.succeeded and restarts_after(given.pod, container, newest.exit_code))


def _with_health(
    given: StatusInput, container: Container, status: ContainerStatus, *, is_init: bool
) -> ContainerStatus:
    """Set started and ready by the state and the probes (UpdatePodStatus of kubelet's probe manager)."""
    newest = given.facts.newest(container.name)
    alive = status.state.running is not None and newest is not None
    if not alive or newest is None:
        completed = status.state.terminated is not None and status.state.terminated.exit_code == 0
        return replace(status, started=False, ready=is_init and not is_sidecar(container) and completed)
    started = container.startup_probe is None or given.probes.startup.get(newest.id) is True
    if is_init and not is_sidecar(container):
        return replace(status, started=started, ready=False)
    passes = container.readiness_probe is None or given.probes.readiness.get(newest.id) is True
    return replace(status, started=started, ready=started and passes)


def _mounts(given: StatusInput, container: Container) -> tuple[VolumeMountStatus, ...]:
    return tuple(
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only,
            recursive_read_only=_recursive_mode(given, mount) if mount.read_only else None,
        )
        for mount in container.volume_mounts
    )


def _recursive_mode(given: StatusInput, mount: VolumeMount) -> str:
    """Return the mode of a read-only mount."""
    wanted = mount.recursive_read_only in ("Enabled", "IfPossible")
    return "Enabled" if wanted and given.is_recursive else "Disabled"


def _time(at: Nanoseconds) -> Time | None:
    return format_time(at) if at else None
