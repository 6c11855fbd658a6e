"""The phase of a pod, the summary of its containers' states (kubelet's getPhase)."""

from enum import StrEnum

import msgspec

from edged.pods.restart import can_restart, restarts_after
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, ContainerStatus, Pod, PodStatus


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


FINAL = frozenset(phase for phase in Phase if phase.final)
"""Succeeded and Failed."""


class _Count(msgspec.Struct):
    """Numbers of containers by state: all regular ones, and sidecars that run (they keep the pod Running) or have not
    run yet.
    """

    unknown: int = 0
    waiting: int = 0
    running: int = 0
    stopped: int = 0
    succeeded: int = 0
    returning: int = 0
    """Stopped, and to be started again."""


def pod_phase(pod: Pod, status: PodStatus, *, ended: bool = False, replaced: frozenset[str] = frozenset()) -> Phase:
    """Return the phase that the container statuses add up to.

    Args:
        ended: no container will be started again, whatever the restart policy (the pod was deleted and its containers
            are gone). Only then can a pod that always restarts be Succeeded or Failed.
        replaced: names of containers that this agent has ended to start others in their place.
    """
    inits = {s.name: s for s in status.init_container_statuses}
    regular = {s.name: s for s in status.container_statuses}
    if _init_failed(pod, inits):
        return Phase.FAILED
    if _init_pending(pod, inits, regular):
        return Phase.PENDING
    count = _count(pod, regular, inits)
    count.returning += len(replaced)
    if count.waiting or count.unknown:
        return Phase.PENDING
    if count.running:
        return Phase.RUNNING
    if not count.stopped:
        return Phase.PENDING
    return _phase_of_stopped(count, ended=ended)


def has_started(status: ContainerStatus) -> bool:
    """Return whether the container runs or has run, which proves that its pod was initialized."""
    return (
        bool(status.started)
        or status.state.running is not None
        or status.state.terminated is not None
        or status.last_state.terminated is not None
    )


def _phase_of_stopped(count: _Count, *, ended: bool) -> Phase:
    if count.returning and not ended:
        return Phase.RUNNING
    return Phase.SUCCEEDED if count.stopped == count.succeeded else Phase.FAILED


def _init_failed(pod: Pod, inits: dict[str, ContainerStatus]) -> bool:
    """Return whether an init container has failed for good."""
    for container in pod.spec.init_containers:
        status = inits.get(container.name)
        code = _exit_code(status) if status is not None and not is_sidecar(container) else None
        if code is not None and code != 0 and not restarts_after(pod, container, code):
            return True
    return False


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
    """Return the exit code of a stopped container, None when it runs or has never ended."""
    if status.state.running is not None:
        return None
    ending = status.state.terminated or status.last_state.terminated
    return None if ending is None else ending.exit_code


def _count(pod: Pod, regular: dict[str, ContainerStatus], inits: dict[str, ContainerStatus]) -> _Count:
    count = _Count()
    for container in pod.spec.containers:
        _count_regular(count, pod, container, regular.get(container.name))
    for container in filter(is_sidecar, pod.spec.init_containers):
        status = inits.get(container.name)
        count.waiting += status is not None and not has_started(status)
        count.running += status is not None and status.state.running is not None
    return count


def _count_regular(count: _Count, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    if status is None:
        count.unknown += 1
    elif status.state.running is not None:
        count.running += 1
    elif status.state.terminated is not None:
        count.stopped += 1
        count.succeeded += status.state.terminated.exit_code == 0
        count.returning += restarts_after(pod, container, status.state.terminated.exit_code)
    elif status.last_state.terminated is not None:
        count.stopped += 1
        count.returning += can_restart(pod, container)
    else:
        count.waiting += 1
