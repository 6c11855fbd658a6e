"""Ephemeral containers, which `kubectl debug` adds to a running pod.

Each is started once and never again, however it ends (kubelet's computePodActions), and does not keep a pod from
ending.
"""

from edged.errors import ConfigError
from edged.pods.model import ContainerId, PodFacts, RunState
from modules.apimachinery.types import EphemeralContainer, Pod


def new_ephemeral(pod: Pod, facts: PodFacts) -> tuple[EphemeralContainer, ...]:
    """Return the ephemeral containers to start. A container that the pod's status reports as started is not started
    again, even if the runtime has forgotten it.
    """
    reported = {
        status.name
        for status in pod.status.ephemeral_container_statuses
        if status.state.running is not None or status.state.terminated is not None
    }
    return tuple(c for c in pod.spec.ephemeral_containers if c.name not in reported and _is_new(c, facts))


def target_of(container: EphemeralContainer, facts: PodFacts) -> ContainerId | None:
    """Return the running container whose processes an ephemeral container shares; None without a target.

    Raises:
        ConfigError: the target does not run.
    """
    name = container.target_container_name
    if not name:
        return None
    target = facts.newest(name)
    if target is None or not target.running:
        raise ConfigError("find the target container", name, "it does not run")
    return target.id


def _is_new(container: EphemeralContainer, facts: PodFacts) -> bool:
    """Return whether the container has not been started; a container in state CREATED has not."""
    known = facts.newest(container.name)
    return known is None or known.state is RunState.CREATED
