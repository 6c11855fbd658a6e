"""What comes before a container is stopped: its preStop hook, within the grace period (kubelet's killContainer)."""

import logging

from beehive import Clock
from edged.api import Container, Pod
from edged.lifecycle.errors import HookError
from edged.lifecycle.hooks import Hooks, Subject
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, ContainerId
from edged.pods.termination import grace_seconds, stop_seconds
from edged.pods.unhealthy import Fault

_log = logging.getLogger(__name__)


class Farewell:
    """Of the containers of one pod, each of which may be stopped beside the others.

    Args:
        clock: measures what a hook takes.
        hooks: runs it.
        pod: as it is wanted.
        faults: by container id, why it is stopped, when that is its own fault.
    """

    def __init__(self, clock: Clock, hooks: Hooks, pod: Pod, faults: dict[ContainerId, Fault] | None = None) -> None:
        self._clock = clock
        self._hooks = hooks
        self._pod = pod
        self._faults = faults or {}

    def __call__(self, facts: ContainerFacts) -> int:
        """Run the hook that there may be; the seconds that are left to the container afterwards.

        A hook that fails, or takes too long, does not keep it from being stopped.
        """
        container = _container(self._pod, facts.name)
        override = probe_grace(self._pod, container, self._faults.get(facts.id))
        grace = grace_seconds(self._pod, override)
        hook = container.lifecycle.pre_stop if container is not None and container.lifecycle is not None else None
        if container is None or hook is None or not facts.running:
            return grace
        begin = self._clock.monotonic()
        subject = Subject(ref_of(self._pod).uid, container, facts.id, self._pod.status.pod_ip)
        try:
            self._hooks.before_stop(hook, subject, grace)
        except HookError as error:
            _log.warning("pod %s: preStop: %s", ref_of(self._pod), error)
        return stop_seconds(self._pod, override, self._clock.monotonic() - begin)


def probe_grace(pod: Pod, container: Container | None, fault: Fault | None) -> int | None:
    """The grace period in seconds that a probe states for the container that it ends; None when there is none.

    A deletion's comes before it (kubelet's setTerminationGracePeriod).
    """
    if container is None or pod.metadata.deletion_grace_period_seconds is not None:
        return None
    probes = {Fault.LIVENESS_PROBE: container.liveness_probe, Fault.STARTUP_PROBE: container.startup_probe}
    probe = probes.get(fault) if fault is not None else None
    return probe.termination_grace_period_seconds if probe is not None else None


def _container(pod: Pod, name: str) -> Container | None:
    return next((c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name == name), None)
