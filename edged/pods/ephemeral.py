"""Ephemeral containers: what `kubectl debug` adds to a pod that runs. Each is started once and never again, whatever
becomes of it (kubelet's computePodActions), and keeps no pod from ending.
"""

from edged.api import EphemeralContainer, Pod
from edged.pods.errors import ConfigError
from edged.pods.model import ContainerId, PodFacts, RunState


def new_ephemeral(pod: Pod, facts: PodFacts) -> tuple[EphemeralContainer, ...]:
    """Those that have not been started yet. One that was reported to have been is not, also when the runtime has
    forgotten it.
    """
    reported = {
        status.name
        for status in pod.status.ephemeral_container_statuses
        if status.state.running is not None or status.state.terminated is not None
    }
    return tuple(c for c in pod.spec.ephemeral_containers if c.name not in reported and _is_new(c, facts))


def target_of(container: EphemeralContainer, facts: PodFacts) -> ContainerId | None:
    """The running container whose processes an ephemeral one is to see; None when it names none.

    Raises:
        ConfigError: it names one that does not run.
    """
    name = container.target_container_name
    if not name:
        return None
    target = facts.newest(name)
    if target is None or not target.running:
        raise ConfigError("find the target container", name, "it does not run")
    return target.id


def _is_new(container: EphemeralContainer, facts: PodFacts) -> bool:
    """One that was made and not started has not been started."""
    known = facts.newest(container.name)
    return known is None or known.state is RunState.CREATED
