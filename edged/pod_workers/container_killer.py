"""Kills single containers or all of a pod, with hooks, order and grace periods (kubelet's killContainer, killPod)."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from beehive import Runtime
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.events.pods import PodEvents
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.lifecycle.stop_container import ContainerStop
from edged.lifecycle.termination_ordering import TerminationOrdering, stop_order
from edged.pods.actions import ContainerKill
from edged.pods.effective_grace_period import SHORTEST_STOP_SECONDS
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, PodFacts, RunState
from edged.pods.unhealthy import KillReason
from modules.apimachinery.types import Pod

StopContainer = int | Callable[[ContainerFacts, Callable[[int], None]], None]
"""How a container is stopped: with this time limit in seconds, or by a function that takes the container and its stop,
and calls the stop with a time limit (see `edged.lifecycle.stop_container`)."""

_MAY_RUN = (RunState.RUNNING, RunState.UNKNOWN)

_log = logging.getLogger(__name__)


def run_concurrently(actors: Runtime, calls: Iterable[Callable[[], None]]) -> None:
    """Make blocking calls concurrently, and return when all have ended. Raises the first error, in their order.

    A single call is made on the caller's own thread.
    """
    waiting = list(calls)
    if len(waiting) == 1:
        waiting[0]()
        return
    answers = [actors.call(call, name="caller") for call in waiting]
    errors = [error for error in map(_error_of, answers) if error is not None]
    if errors:
        raise errors[0]


def kill_containers(
    actors: Runtime, runtime: ContainerRuntime, containers: Iterable[ContainerFacts], how: StopContainer
) -> None:
    """Stop the containers that run, and those in an unknown state: a container must not run beside its successor
    (kubelet's computePodActions stops it first). Raises CriError.
    """

    def stop(container: ContainerFacts) -> Callable[[], None]:
        def within(seconds: int) -> None:
            runtime.stop_container(ContainerId(container.id), seconds)

        return lambda: within(how) if isinstance(how, int) else how(container, within)

    run_concurrently(actors, [stop(container) for container in containers if container.state in _MAY_RUN])


def kill_pod(actors: Runtime, runtime: ContainerRuntime, facts: PodFacts, how: StopContainer) -> None:
    """Stop the pod's containers, then its sandboxes. Raises CriError."""
    kill_containers(actors, runtime, facts.containers, how)
    for sandbox in facts.sandboxes:
        if sandbox.ready:
            runtime.stop_pod_sandbox(SandboxId(sandbox.id))


def remove_pod(runtime: ContainerRuntime, facts: PodFacts) -> None:
    """Remove the containers and sandboxes of a pod that has been killed. Raises CriError."""
    for container in facts.containers:
        runtime.remove_container(ContainerId(container.id))
    for sandbox in facts.sandboxes:
        runtime.stop_pod_sandbox(SandboxId(sandbox.id))
        runtime.remove_pod_sandbox(SandboxId(sandbox.id))


def _error_of(answer: Any) -> BaseException | None:
    try:
        answer.get()
    except Exception as error:  # noqa: BLE001 - handed to the caller once all have ended
        return error
    return None


_ORPHAN_GRACE = SHORTEST_STOP_SECONDS
"""Grace period in seconds of containers whose pod is not known (kubelet's SyncTerminatingRuntimePod asks for 1, and its
killContainer makes it 2)."""


class ContainerKiller:
    """A killer of containers and sandboxes that records events. Blocks; used by several workers at the same time.

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
        kill_pod(self._actors, self._runtime, facts, stop)

    def kill_orphan(self, facts: PodFacts) -> None:
        """Stop the containers and sandboxes of a pod that is no longer known. Raises CriError."""
        kill_pod(self._actors, self._runtime, facts, _ORPHAN_GRACE)

    def remove_pod(self, facts: PodFacts) -> None:
        """Remove the containers and sandboxes of a pod that was killed. Raises CriError."""
        remove_pod(self._runtime, facts)
