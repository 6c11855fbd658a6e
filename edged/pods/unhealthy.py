"""Why a running container has to be killed."""

from enum import Enum

from edged.api import Container
from edged.pods.hash import differs
from edged.pods.model import ContainerFacts, HookFacts, ProbeFacts


class Fault(Enum):
    """A reason to kill one container; the value completes "Container x …" as a kubelet's event says it."""

    DEFINITION_CHANGED = "definition changed"
    LIVENESS_PROBE = "failed liveness probe"
    STARTUP_PROBE = "failed startup probe"
    START_HOOK = "failed postStart hook"
    UNKNOWN_STATE = "is in an unknown state"
    NOT_WANTED = "is no longer part of the pod"
    SUPERSEDED = "has a newer instance"


def fault_of(container: Container, running: ContainerFacts, probes: ProbeFacts, hooks: HookFacts) -> Fault | None:
    """What is wrong with a running container: another definition first, then its hook and its probes; None when
    it may stay.

    A container whose recorded definition is not of this agent's making is left as it is.
    """
    if differs(running.hash, container):
        return Fault.DEFINITION_CHANGED
    if running.id in hooks.failed:
        return Fault.START_HOOK
    if probes.liveness.get(running.id) is False:
        return Fault.LIVENESS_PROBE
    if probes.startup.get(running.id) is False:
        return Fault.STARTUP_PROBE
    return None
