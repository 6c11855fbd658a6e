"""ContainerStop: stops a container with its preStop hook, in its order (kubelet's killContainer)."""

import logging
from collections.abc import Callable

from beehive import Runtime
from edged.cri.errors import CriError
from edged.errors import HookError
from edged.events.pods import PodEvents
from edged.lifecycle.hooks import HookTarget
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.lifecycle.running_grace_periods import GracePeriod
from edged.lifecycle.termination_ordering import TerminationOrdering
from edged.pods.effective_grace_period import grace_seconds
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, ContainerId
from edged.pods.unhealthy import KillReason
from edged.probes.targets import pod_address
from modules.apimachinery.types import Container, Pod

_log = logging.getLogger(__name__)

Stop = Callable[[int], None]
"""Stops a container with a time limit in seconds; blocks until it has ended."""


class ContainerStop:
    """The stop of one pod's containers: preStop hook, termination ordering and stop share one grace period, which may
    be shortened meanwhile. Several threads use it at the same time, each for another container.

    Args:
        actors: run a second stop when the grace period is shortened.
        lifecycle: runs hooks and counts grace periods.
        pod: the pod, with its grace period.
        reasons: why containers are killed, by id, if not because the pod ends.
        ordering: lets containers end one after the other.
        events: records hooks that failed.
    """

    def __init__(
        self,
        actors: Runtime,
        lifecycle: PodLifecycle,
        pod: Pod,
        *,
        reasons: dict[ContainerId, KillReason] | None = None,
        ordering: TerminationOrdering | None = None,
        events: PodEvents,
    ) -> None:
        self._events = events
        self._actors = actors
        self._lifecycle = lifecycle
        self._pod = pod
        self._reasons = reasons or {}
        self._ordering = ordering

    def __call__(self, facts: ContainerFacts, stop: Stop) -> None:
        """Stop a container, even if its hook fails or takes too long. Raises CriError."""
        container = _container(self._pod, facts.name)
        grace = grace_seconds(self._pod, container, self._reasons.get(facts.id))
        with self._lifecycle.grace_periods.begin(ref_of(self._pod).uid, grace) as grace_period:
            if container is not None:
                self._run_hook(container, facts, grace_period)
            if self._ordering is None:
                self._stop(stop, grace_period)
                return
            self._ordering.wait_for_turn(facts.id, grace_period)
            try:
                self._stop(stop, grace_period)
            finally:
                self._ordering.container_terminated(facts.id)

    def _run_hook(self, container: Container, facts: ContainerFacts, grace_period: GracePeriod) -> None:
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None:
            return
        subject = HookTarget(ref_of(self._pod).uid, container, facts.id, pod_address(self._pod))
        try:
            self._lifecycle.hooks.run_pre_stop(hook, subject, grace_period)
        except HookError as error:
            _log.warning("pod %s: preStop: %s", ref_of(self._pod), error)
            self._events.pre_stop_failed(self._pod, container.name)
        except Exception:  # noqa: BLE001 - a bug; the container is stopped as after any other failure
            _log.exception("preStop of container %s failed unexpectedly", container.name)
            self._events.pre_stop_failed(self._pod, container.name)

    def _stop(self, stop: Stop, grace_period: GracePeriod) -> None:
        def stop_beside() -> None:
            try:
                stop(grace_period.stop_timeout())
            except CriError as error:
                _log.warning("a container cannot be stopped sooner: %s", error)

        def sooner() -> None:
            """Stop the container a second time: the CRI allows that while a longer stop is under way."""
            try:
                self._actors.call(stop_beside, name="stop-sooner")
            except RuntimeError as error:  # there can be no more threads
                _log.warning("a container cannot be stopped sooner: %s", error)

        with grace_period.listening(sooner):
            stop(grace_period.stop_timeout())


def _container(pod: Pod, name: str) -> Container | None:
    return next((c for c in pod.spec.all_containers if c.name == name), None)
