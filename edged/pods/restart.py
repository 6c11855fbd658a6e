"""Whether a container that does not run is to run again, and under which number.

The rules are those of kubelet's ShouldContainerBeRestarted: the pod's restart policy decides about what has
ended; what never really started is started in any case.
"""

from edged.api import Container, Pod
from edged.pods.model import ContainerFacts, PodFacts, RunState

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


def next_attempt(facts: PodFacts, name: str) -> int:
    """The number of the next container of that name: 0 for the first, then one more than the newest."""
    last = facts.newest(name)
    return 0 if last is None else last.attempt + 1
