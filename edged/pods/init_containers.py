"""How far a pod's initialization has come, and which init container is next.

Init containers run one after the other, each to its end; one with restartPolicy Always (a sidecar) has only
to be started before the next one may begin, and is kept running from then on. The order of judgement is that
of kubelet's computeInitContainerActions: from the last to the first, because early ones may have been cleaned
away after success.

Only containers of the pod's present sandbox count. (A kubelet cannot tell sandboxes apart here, and for that
reason deletes all init containers when it makes a new sandbox.)
"""

from dataclasses import dataclass, field

from edged.api import Container, Pod
from edged.pods.model import ContainerFacts, HookFacts, PodFacts, ProbeFacts, RunState
from edged.pods.restart import can_restart, is_sidecar, restarts_after
from edged.pods.unhealthy import Fault, fault_of

_STARTED = (RunState.CREATED, RunState.RUNNING)


@dataclass
class InitProgress:
    """What initialization needs: `failed` means it failed for good."""

    done: bool = False
    failed: bool = False
    start: list[int] = field(default_factory=list)
    kill: list[tuple[ContainerFacts, Fault]] = field(default_factory=list)

    def again(self, index: int, faulty: ContainerFacts | None = None, fault: Fault | None = None) -> None:
        """Start the init container at `index` (once more), after a kill when one is named."""
        if faulty is not None and fault is not None:
            self.kill.append((faulty, fault))
        self.start.append(index)


def judge_initialization(pod: Pod, facts: PodFacts, probes: ProbeFacts, hooks: HookFacts) -> InitProgress:
    """Where the initialization of a pod stands whose sandbox is good. `start` is in the order of the pod's
    spec.
    """
    inits = pod.spec.init_containers
    progress = InitProgress(done=not inits or _regular_container_started(pod, facts))
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
            return InitProgress(failed=True)
        if complete and not reached:
            _go_on(progress, pod, index)
        reached = True
    if not reached:
        progress.start.append(0)
    progress.start = sorted(set(progress.start))
    return progress


def _regular_container_started(pod: Pod, facts: PodFacts) -> bool:
    """One started regular container proves that initialization was complete, even if nothing else is left of
    it.
    """
    present = (facts.newest_here(container.name) for container in pod.spec.containers)
    return any(container is not None and container.state in _STARTED for container in present)


def _judge_ordinary(
    progress: InitProgress, pod: Pod, container: Container, index: int, present: ContainerFacts
) -> bool:
    """Whether an init container that has to end has ended well; what it needs otherwise is noted."""
    if present.running or present.succeeded:
        return present.succeeded
    if not _is_tried_again(pod, container, present):
        progress.failed = True
    elif present.state is RunState.UNKNOWN:
        progress.again(index, present, Fault.UNKNOWN_STATE)
    else:
        progress.again(index)
    return False


def _is_tried_again(pod: Pod, container: Container, present: ContainerFacts) -> bool:
    if present.state is RunState.EXITED:
        return restarts_after(pod, container, present.exit_code)
    return present.state is RunState.CREATED or can_restart(pod, container)


def _judge_sidecar(
    progress: InitProgress,
    container: Container,
    index: int,
    present: ContainerFacts,
    probes: ProbeFacts,
    hooks: HookFacts,
) -> bool:
    """Whether an init container that stays has started; what it needs otherwise is noted."""
    if present.state is RunState.UNKNOWN:
        progress.again(index, present, Fault.UNKNOWN_STATE)
        return False
    if not present.running:
        progress.again(index)
        return False
    fault = fault_of(container, present, probes, hooks)
    if fault is Fault.START_HOOK:
        progress.kill.append((present, fault))
    elif fault is not None:
        progress.again(index, present, fault)
    if hooks.holds(present.id):
        return False
    return fault is not Fault.STARTUP_PROBE and _has_started(container, present, probes)


def _has_started(container: Container, present: ContainerFacts, probes: ProbeFacts) -> bool:
    return container.startup_probe is None or probes.startup.get(present.id) is True


def _go_on(progress: InitProgress, pod: Pod, index: int) -> None:
    if index == len(pod.spec.init_containers) - 1:
        progress.done = True
    else:
        progress.start.append(index + 1)
