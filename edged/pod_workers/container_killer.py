"""Kills single containers or all of a pod, with hooks, order and grace periods (kubelet's killContainer, killPod)."""

import logging

from beehive import Runtime
from edged.api import Pod
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.events.pods import PodEvents
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.lifecycle.stop_container import ContainerStop
from edged.lifecycle.termination_ordering import TerminationOrdering
from edged.pod_workers.kill_containers import kill_containers, kill_pod, remove_pod
from edged.pods.actions import ContainerKill
from edged.pods.grace_period import SHORTEST_STOP_SECONDS
from edged.pods.labels import ref_of
from edged.pods.model import PodFacts
from edged.pods.stop_order import stop_order
from edged.pods.unhealthy import KillReason

_log = logging.getLogger(__name__)

_ORPHAN_GRACE = SHORTEST_STOP_SECONDS
"""Grace period in seconds of containers whose pod is not known (kubelet's SyncTerminatingRuntimePod asks for 1, and its
killContainer makes it 2)."""


class ContainerKiller:
    """Stops containers and sandboxes, and records the events. Blocks; used by several workers at the same time.

    Args:
        actors: run the stops of several containers concurrently.
        runtime: the container runtime.
        lifecycle: preStop hooks, grace periods and waits.
        events: records kills.
    """

    def __init__(self, actors: Runtime, runtime: ContainerRuntime, lifecycle: PodLifecycle, events: PodEvents) -> None:
        self._actors = actors
        self._runtime = runtime
        self._lifecycle = lifecycle
        self._events = events

    def kill_containers(self, pod: Pod, kills: tuple[ContainerKill, ...]) -> None:
        """Stop single containers of a pod. Raises CriError."""
        for kill in kills:
            _log.info("pod %s: %s", ref_of(pod), kill.message)
            if kill.reason is KillReason.START_HOOK:
                self._events.post_start_failed(pod, kill.container.name)
            self._events.killing(pod, kill.container.name, kill.message)
        reasons = {kill.container.id: kill.reason for kill in kills}
        stop = ContainerStop(self._actors, self._lifecycle, pod, reasons=reasons, events=self._events)
        kill_containers(self._actors, self._runtime, [kill.container for kill in kills], stop)

    def kill_pod(self, pod: Pod, facts: PodFacts) -> None:
        """Stop all containers of a pod in their order, then its sandboxes. Raises CriError."""
        for container in facts.containers:
            if container.running:
                self._events.killing(pod, container.name)
        ordering = TerminationOrdering(self._lifecycle.waits, stop_order(pod, facts.containers))
        stop = ContainerStop(self._actors, self._lifecycle, pod, ordering=ordering, events=self._events)
        try:
            kill_pod(self._actors, self._runtime, facts, stop)
        except CriError as error:
            self._events.kill_failed(pod, error)
            raise

    def kill_orphan(self, facts: PodFacts) -> None:
        """Stop the containers and sandboxes of a pod that is not known any more. Raises CriError."""
        kill_pod(self._actors, self._runtime, facts, _ORPHAN_GRACE)

    def remove_pod(self, facts: PodFacts) -> None:
        """Remove the containers and sandboxes of a pod that was killed. Raises CriError."""
        remove_pod(self._runtime, facts)
