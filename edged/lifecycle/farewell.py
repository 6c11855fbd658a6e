"""How a container is stopped: its preStop hook, its turn among the others, the stop itself, all within one grace period
that may be shortened meanwhile (kubelet's killContainer).
"""

import logging
from collections.abc import Callable

from beehive import Actor, Runtime
from edged.api import Container, Pod
from edged.cri.errors import CriError
from edged.events.pods import PodEvents
from edged.lifecycle.departures import Departure
from edged.lifecycle.errors import HookError
from edged.lifecycle.hooks import Subject
from edged.lifecycle.lives import Lives
from edged.lifecycle.turns import StopTurns
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, ContainerId
from edged.pods.termination import grace_seconds
from edged.pods.unhealthy import Fault

_log = logging.getLogger(__name__)

Stop = Callable[[int], None]
"""Stops a container that gets so many seconds; blocks until it has ended."""


class Farewell:
    """Of the containers of one pod, each of which may be stopped beside the others.

    Args:
        actors: for a stop that overtakes another.
        lives: runs what a container wants to be done before, and notes the grace period, to be shortened.
        pod: as it is wanted.
        faults: by container id, why it is stopped, when that is its own fault.
        turns: in which order, when there is one.
        events: is told of a hook that failed.
    """

    def __init__(
        self,
        actors: Runtime,
        lives: Lives,
        pod: Pod,
        *,
        faults: dict[ContainerId, Fault] | None = None,
        turns: StopTurns | None = None,
        events: PodEvents,
    ) -> None:
        self._events = events
        self._actors = actors
        self._lives = lives
        self._pod = pod
        self._faults = faults or {}
        self._turns = turns

    def __call__(self, facts: ContainerFacts, stop: Stop) -> None:
        """Do it. A hook that fails, or takes too long, does not keep the container from being stopped."""
        container = _container(self._pod, facts.name)
        grace = grace_seconds(self._pod, probe_grace(self._pod, container, self._faults.get(facts.id)))
        with self._lives.departures.begin(ref_of(self._pod).uid, grace) as departure:
            if container is not None:
                self._run_hook(container, facts, departure)
            if self._turns is None:
                self._stop(stop, departure)
                return
            self._turns.wait(facts.id, departure)
            try:
                self._stop(stop, departure)
            finally:
                self._turns.ended(facts.id)

    def _run_hook(self, container: Container, facts: ContainerFacts, departure: Departure) -> None:
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None:
            return
        subject = Subject(ref_of(self._pod).uid, container, facts.id, self._pod.status.pod_ip)
        try:
            self._lives.hooks.before_stop(hook, subject, departure)
        except HookError as error:
            _log.warning("pod %s: preStop: %s", ref_of(self._pod), error)
            self._events.pre_stop_failed(self._pod, container.name)
        except Exception:  # noqa: BLE001 - a bug; the container is stopped as after any other failure
            _log.exception("preStop of container %s failed in a way nobody foresaw", container.name)
            self._events.pre_stop_failed(self._pod, container.name)

    def _stop(self, stop: Stop, departure: Departure) -> None:
        def sooner() -> None:
            self._actors.start(_Overtaker, name="overtaker").ref.tell(lambda: stop(departure.left()))

        with departure.listening(sooner):
            stop(departure.left())


class _Overtaker(Actor):
    """Makes one stop beside another one that lets the container live longer. CRI allows that."""

    def on_receive(self, stop: Callable[[], None]) -> None:
        try:
            stop()
        except CriError as error:
            _log.warning("a container cannot be stopped sooner: %s", error)
        self.stop()


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
    return next((c for c in pod.spec.all_containers if c.name == name), None)
