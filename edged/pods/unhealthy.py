"""Reasons to kill a running container."""

from enum import Enum

from edged.pods.hash import differs
from edged.pods.model import ContainerFacts, HookFacts, ProbeFacts
from modules.apimachinery.types import Container


class KillReason(Enum):
    """A reason to kill one container; the value completes "Container x …" as in a kubelet's event."""

    DEFINITION_CHANGED = "definition changed"
    LIVENESS_PROBE = "failed liveness probe"
    STARTUP_PROBE = "failed startup probe"
    START_HOOK = "failed postStart hook"
    UNKNOWN_STATE = "is in an unknown state"
    NOT_IN_POD = "is no longer part of the pod"
    SUPERSEDED = "has a newer instance"


def kill_reason(
    container: Container, running: ContainerFacts, probes: ProbeFacts, hooks: HookFacts
) -> KillReason | None:
    """Return why a running container is killed; None when it keeps running. A changed definition comes first, then its
    postStart hook, then its probes.

    A container that a kubelet made is killed for a changed definition only if its image has changed.
    """
    if differs(running.hash, container, running.image):
        return KillReason.DEFINITION_CHANGED
    if running.id in hooks.failed:
        return KillReason.START_HOOK
    if probes.liveness.get(running.id) is False:
        return KillReason.LIVENESS_PROBE
    if probes.startup.get(running.id) is False:
        return KillReason.STARTUP_PROBE
    return None
