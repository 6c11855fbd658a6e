"""The phase of a pod: the one word that sums up its containers (kubelet's getPhase)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from edged.api import Container, ContainerStatus, Pod, PodStatus
from edged.pods.restart import ALWAYS, NEVER, is_sidecar


class Phase(StrEnum):
    """Kubernetes' phases."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def final(self) -> bool:
        """Whether the phase is never left again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass
class _Count:
    """How many regular containers are in which state."""

    unknown: int = 0
    waiting: int = 0
    running: int = 0
    stopped: int = 0
    succeeded: int = 0


def pod_phase(pod: Pod, status: PodStatus, *, ended: bool = False) -> Phase:
    """The phase that the container statuses add up to.

    `ended` says that no container will be started again, whatever the restart policy (the pod was deleted and
    its containers are gone); only then can a pod that always restarts be Succeeded or Failed.
    """
    inits = {s.name: s for s in status.init_container_statuses}
    regular = {s.name: s for s in status.container_statuses}
    if pod.spec.restart_policy == NEVER and _init_failed(pod, inits):
        return Phase.FAILED
    if _init_pending(pod, inits, regular):
        return Phase.PENDING
    count = _count(pod.spec.containers, regular)
    if count.waiting or count.unknown:
        return Phase.PENDING
    if count.running:
        return Phase.RUNNING
    if not count.stopped:
        return Phase.PENDING
    return _phase_of_stopped(pod, count, ended=ended)


def has_started(status: ContainerStatus) -> bool:
    """Whether this container runs or ran before: then its pod was initialized."""
    return (
        bool(status.started)
        or status.state.running is not None
        or status.state.terminated is not None
        or status.last_state.terminated is not None
    )


def _phase_of_stopped(pod: Pod, count: _Count, *, ended: bool) -> Phase:
    if not ended and pod.spec.restart_policy in (ALWAYS, ""):
        return Phase.RUNNING
    if count.stopped == count.succeeded:
        return Phase.SUCCEEDED
    return Phase.FAILED if ended or pod.spec.restart_policy == NEVER else Phase.RUNNING


def _init_failed(pod: Pod, inits: dict[str, ContainerStatus]) -> bool:
    ordinary = (inits.get(c.name) for c in pod.spec.init_containers if not is_sidecar(c))
    return any(_exit_code(status) not in (None, 0) for status in ordinary if status is not None)


def _init_pending(pod: Pod, inits: dict[str, ContainerStatus], regular: dict[str, ContainerStatus]) -> bool:
    initialized = any(has_started(status) for status in regular.values())
    for container in pod.spec.init_containers:
        status = inits.get(container.name)
        if is_sidecar(container):
            if not initialized and (status is None or not status.started):
                return True
        elif status is None or _exit_code(status) is None:
            return True
    return False


def _exit_code(status: ContainerStatus) -> int | None:
    """The exit code of a container that does not run now, None when it runs or never ended."""
    if status.state.running is not None:
        return None
    ending = status.state.terminated or status.last_state.terminated
    return None if ending is None else ending.exit_code


def _count(containers: Iterable[Container], statuses: dict[str, ContainerStatus]) -> _Count:
    count = _Count()
    for container in containers:
        status = statuses.get(container.name)
        if status is None:
            count.unknown += 1
        elif status.state.running is not None:
            count.running += 1
        elif status.state.terminated is not None:
            count.stopped += 1
            count.succeeded += status.state.terminated.exit_code == 0
        elif status.last_state.terminated is not None:
            count.stopped += 1
        else:
            count.waiting += 1
    return count
