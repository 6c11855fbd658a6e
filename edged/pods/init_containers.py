"""The next steps of a pod's initialization (kubelet's computeInitContainerActions).

Init containers run one after the other, each to its end. One with restartPolicy Always (a sidecar) only has to be
started before the next one may begin, and is kept running from then on. Containers are examined from the last to the
first, because early ones may have been removed after success.
"""

import msgspec

from edged.pods.model import ContainerFacts, HookFacts, PodFacts, ProbeFacts, RunState
from edged.pods.restart import can_restart, restarts_after
from edged.pods.unhealthy import KillReason, kill_reason
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, Pod

_STARTED = (RunState.CREATED, RunState.RUNNING)


class InitContainerActions(msgspec.Struct):
    """The state of a pod's initialization and its next steps. `failed` means that it has failed for good; `start` has
    indices of `spec.initContainers`.
    """

    done: bool = False
    failed: bool = False
    start: list[int] = msgspec.field(default_factory=list)
    kill: list[tuple[ContainerFacts, KillReason]] = msgspec.field(default_factory=list)

    def again(self, index: int, running: ContainerFacts | None = None, reason: KillReason | None = None) -> None:
        """Start the init container at `index` (again), after killing `running` for `reason`."""
        if running is not None and reason is not None:
            self.kill.append((running, reason))
        self.start.append(index)


def compute_init_container_actions(
    pod: Pod, facts: PodFacts, probes: ProbeFacts, hooks: HookFacts
) -> InitContainerActions:
    """Return the state and next steps of a pod's initialization in its present sandbox. `start` is in the order of the
    spec.
    """
    inits = pod.spec.init_containers
    progress = InitContainerActions(done=not inits or _regular_container_started(pod, facts))
    reached = progress.done
    for index in reversed(range(len(inits))):
        container = inits[index]
        present = facts.newest_here(container.name)
        if present is None:
            if reached and is_sidecar(container):
                progress.start.append(index)
            continue
        if reached and not is_sidecar(container):
            continue
        if is_sidecar(container):
            complete = _judge_sidecar(progress, container, index, present, probes, hooks)
        else:
            complete = _judge_ordinary(progress, pod, container, index, present)
        if progress.failed:
            return InitContainerActions(failed=True)
        if complete and not reached:
            _start_next(progress, pod, index)
        reached = True
    if not reached:
        progress.start.append(0)
    progress.start = sorted(set(progress.start))
    return progress


def _regular_container_started(pod: Pod, facts: PodFacts) -> bool:
    """Return whether a regular container has started: that proves a complete initialization, even if no init container
    is left.
    """
    present = (facts.newest_here(container.name) for container in pod.spec.containers)
    return any(container is not None and container.state in _STARTED for container in present)


def _judge_ordinary(
    progress: InitContainerActions, pod: Pod, container: Container, index: int, present: ContainerFacts
) -> bool:
    """Return whether an ordinary init container has succeeded; otherwise note its next step."""
    if present.running or present.succeeded:
        return present.succeeded
    if not _is_tried_again(pod, container, present):
        progress.failed = True
    elif present.state is RunState.UNKNOWN:
        progress.again(index, present, KillReason.UNKNOWN_STATE)
    else:
        progress.again(index)
    return False


def _is_tried_again(pod: Pod, container: Container, present: ContainerFacts) -> bool:
    if present.state is RunState.EXITED:
        return restarts_after(pod, container, present.exit_code)
    return present.state is RunState.CREATED or can_restart(pod, container)


def _judge_sidecar(
    progress: InitContainerActions,
    container: Container,
    index: int,
    present: ContainerFacts,
    probes: ProbeFacts,
    hooks: HookFacts,
) -> bool:
    """Return whether a sidecar has started; otherwise note its next step."""
    if present.state is RunState.UNKNOWN:
        progress.again(index, present, KillReason.UNKNOWN_STATE)
        return False
    if not present.running:
        progress.again(index)
        return False
    reason = kill_reason(container, present, probes, hooks)
    if reason is KillReason.START_HOOK:
        progress.kill.append((present, reason))
    elif reason is not None:
        progress.again(index, present, reason)
    if hooks.holds(present.id):
        return False
    return reason is not KillReason.STARTUP_PROBE and _has_started(container, present, probes)


def _has_started(container: Container, present: ContainerFacts, probes: ProbeFacts) -> bool:
    return container.startup_probe is None or probes.startup.get(present.id) is True


def _start_next(progress: InitContainerActions, pod: Pod, index: int) -> None:
    if index == len(pod.spec.init_containers) - 1:
        progress.done = True
    else:
        progress.start.append(index + 1)
