"""Whether a container that does not run is to run again, and under which number.

The rules are those of kubelet's ShouldContainerBeRestarted: the pod's restart policy decides about what has
ended; what never really started is started in any case.
"""

from edged.api import Container, Pod
from edged.pods.hash import differs
from edged.pods.model import ContainerFacts, PodFacts, RunState, SandboxId

ALWAYS = "Always"
ON_FAILURE = "OnFailure"
NEVER = "Never"

_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def is_sidecar(container: Container) -> bool:
    """Whether an init container stays beside the others (restartPolicy Always)."""
    return container.restart_policy == ALWAYS


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has ended for good: a phase that is never left again."""
    return pod.status.phase in _TERMINAL_PHASES


def restarts_failed(pod: Pod) -> bool:
    """Whether a failed container is tried again; an empty policy stands for Always, the API's default."""
    return pod.spec.restart_policy != NEVER


def should_be_started(pod: Pod, last: ContainerFacts | None) -> bool:
    """Whether a regular container is to be started, given the newest container of its name."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if last is None or last.state in (RunState.CREATED, RunState.UNKNOWN):
        return True
    if last.running or pod.spec.restart_policy == NEVER:
        return False
    return not (pod.spec.restart_policy == ON_FAILURE and last.exit_code == 0)


def next_attempt(facts: PodFacts, container: Container, sandbox: SandboxId | None) -> int:
    """The number of the next container of that name: 0 for the first, then one more than the newest.

    The newest one's own when it was made in this sandbox, as it is wanted now, and never started: an agent that was
    killed between the two steps left it. Taken up under its number it is not counted as a restart, and cannot run
    beside another one when the runtime is starting it at this moment. (A kubelet makes another one.)
    """
    last = facts.newest(container.name)
    if last is None:
        return 0
    unstarted = last.state is RunState.CREATED and last.sandbox_id == sandbox and not differs(last.hash, container)
    return last.attempt if unstarted else last.attempt + 1
