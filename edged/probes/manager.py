"""The probe manager (kubelet's prober manager). Times are in monotonic seconds unless stated otherwise."""

import logging
from collections.abc import Iterator
from typing import Final

from beehive import ModuleContext, Timer
from edged.cri.contract import ContainerId
from edged.errors import TargetError
from edged.events.pods import PodEvents
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager
from edged.pods.model import ContainerFacts, PodFacts, PodUid, ProbeFacts
from edged.probes.model import (
    ProbeCounts,
    ProbeKind,
    ProbeOutcome,
    ProbeResult,
    ProbeTiming,
    probed_containers,
    probes_of,
)
from edged.probes.runner import ProbeAttempt
from edged.probes.schedule import first_wait, is_due, next_due, spread
from edged.probes.targets import pod_address, probe_target
from edged.probes.thresholds import ProbeHistory, decide
from edged.probes.worker_pool import ProbeWorkerPool
from edged.sync_events import PodHealthChanged, SyncEvents
from modules.apimachinery.types import Container, ContainerStatus, Pod
from modules.apimachinery.types.probes import Probe

PROBE: Final = "probe"
"""First word of the name of a probe's timer; the probe's kind and the container's id follow."""


_log = logging.getLogger(__name__)

_NOTHING = ProbeFacts()


class _Watch:
    """One probe of one running container."""

    __slots__ = ("container", "due", "ended", "history", "kind", "on_hold", "passes", "probe", "timer", "timing")

    def __init__(self, kind: ProbeKind, probe: Probe, container: ContainerFacts) -> None:
        self.kind = kind
        self.probe = probe
        self.timing = ProbeTiming.of(probe)
        self.container = container
        self.history = ProbeHistory()
        self.passes: bool | None = None
        self.on_hold = False
        self.ended = False
        """The container has ended, or the pod has another probe now."""
        self.due: float | None = None
        """Time of the next probe; None while it is held back or on hold."""
        self.timer: Timer | None = None

    def hold(self) -> None:
        """Stop probing for now."""
        self.due = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def end(self) -> None:
        """Stop probing for good."""
        self.ended = True
        self.hold()


_Watches = dict[ContainerId, dict[ProbeKind, _Watch]]


class ProbeManager:
    """The manager that schedules all pods' probes and keeps their results, on the edged module's thread.

    Results belong to one instance of a container: the next instance begins without any. A pod without probes costs one
    pass over its containers whenever it changes.

    Args:
        context: the module.
        workers: run the probes.
        pods: of this node, for their addresses.
        changes: take the pods whose probes have another result than before.
        events: records failed probes.
    """

    def __init__(
        self,
        context: ModuleContext,
        workers: ProbeWorkerPool,
        pods: PodManager,
        changes: SyncEvents[PodHealthChanged],
        events: PodEvents,
    ) -> None:
        self._telling = {
            ProbeOutcome.SUCCESS: ("passed", events.probe_warned),
            ProbeOutcome.FAILURE: ("failed", events.unhealthy),
            ProbeOutcome.UNKNOWN: ("could not be asked", events.probe_errored),
        }
        self._context = context
        self._workers = workers
        self._known = pods
        self._changes = changes
        self._began = context.clock.monotonic()
        self._pods: dict[PodUid, _Watches] = {}
        self._facts: dict[PodUid, ProbeFacts] = {}
        self._counts: dict[PodUid, ProbeCounts] = {}

    def facts(self, uid: PodUid) -> ProbeFacts:
        """Return the present results of a pod's containers."""
        return self._facts.get(uid, _NOTHING)

    def counts(self) -> dict[PodUid, ProbeCounts]:
        """Return how often the probes of each pod had each outcome; any thread."""
        return {uid: dict(counts) for uid, counts in self._counts.copy().items()}

    def update_pod(self, pod: Pod, facts: PodFacts, *, terminating: bool) -> None:
        """Start and stop probes after a change of the pod or of its containers."""
        uid = ref_of(pod).uid
        watches = self._pods.get(uid, {})
        probed = dict(_probed(pod, facts))
        if not probed and not watches:
            return
        for absent in [each for each in watches if each not in probed]:
            for watch in watches.pop(absent).values():
                watch.end()
        for identity, (container, running) in probed.items():
            if identity not in watches:
                watches[identity] = self._add_watches(pod, container, running)
            _renew(watches[identity], container, running)
            self._arm(uid, watches[identity], terminating=terminating)
        self._keep(uid, watches)

    def remove_pod(self, uid: PodUid) -> None:
        """Stop all probes of a removed pod."""
        self._counts.pop(uid, None)
        for watches in self._pods.get(uid, {}).values():
            for watch in watches.values():
                watch.end()
        self._keep(uid, {})

    def _keep(self, uid: PodUid, watches: _Watches) -> None:
        if watches:
            self._pods[uid] = watches
            self._facts[uid] = _facts_of(watches)
        elif self._pods.pop(uid, None) is not None:
            del self._facts[uid]
            if not self._pods:
                self._workers.stop_idle()

    def _add_watches(self, pod: Pod, container: Container, running: ContainerFacts) -> dict[ProbeKind, _Watch]:
        """Return the probes of a running container.

        A container that started before this agent keeps its reported status until a probe changes it (kubelet's
        ChangeContainerStatusOnKubeletRestart=false): a restart of the agent must not take it out of service.
        """
        watches = {kind: _Watch(kind, probe, running) for kind, probe in probes_of(container).items()}
        reported = _reported(pod, running.id)
        if reported is not None and reported.state.running is not None:
            for kind, held in ((ProbeKind.STARTUP, reported.started), (ProbeKind.READINESS, reported.ready)):
                if kind in watches and held:
                    watches[kind].passes = True
                    watches[kind].on_hold = kind is ProbeKind.STARTUP
        return watches

    def _arm(self, uid: PodUid, watches: dict[ProbeKind, _Watch], *, terminating: bool) -> None:
        """Schedule the probes that are due, and hold the others back."""
        startup = watches.get(ProbeKind.STARTUP)
        if terminating:
            _set_passing(watches)
        started = startup is None or startup.passes is True
        for watch in watches.values():
            if watch.on_hold or not is_due(watch.kind, started=started, terminating=terminating):
                watch.hold()
            elif watch.due is None:
                self._schedule(uid, watch, self._first(watch))

    def _first(self, watch: _Watch) -> float:
        clock, timing = self._context.clock, watch.timing
        now = clock.monotonic()
        age = (clock.now_ns() - watch.container.started_at) / 1e9
        return now + first_wait(timing.delay, age) + spread(timing.period, now - self._began, clock.random.random())

    def _schedule(self, uid: PodUid, watch: _Watch, due: float) -> None:
        watch.due = due
        wait = max(0.0, due - self._context.clock.monotonic())

        def probe() -> None:
            self._probe(uid, watch)

        probe.__qualname__ = f"{PROBE} {watch.kind.value} {watch.container.id}"  # in a trace, and for its replay
        watch.timer = self._context.after(wait, probe)

    def _probe(self, uid: PodUid, watch: _Watch) -> None:
        watch.timer = None
        pod = self._known.pod(uid)
        container = _container(pod, watch.container.name) if pod is not None else None
        if pod is None or container is None:
            return
        due = watch.due
        try:
            target = probe_target(watch.probe, container, pod_address(pod))
        except TargetError as error:
            self._handle_result(uid, watch, due, ProbeResult(ProbeOutcome.UNKNOWN, str(error)))
            return
        attempt = ProbeAttempt(watch.kind, watch.container.id, target, watch.timing.limit)
        self._workers.submit(
            uid, attempt, lambda result: self._handle_result(uid, watch, due, result), lambda: watch.due == due
        )

    def _handle_result(self, uid: PodUid, watch: _Watch, due: float | None, result: ProbeResult) -> None:
        """Handle a result, unless the probe was held back since it was due."""
        if watch.ended or due is None or watch.due != due:
            return
        counts, counted = self._counts.setdefault(uid, {}), (watch.container.name, watch.kind, result.outcome)
        counts[counted] = counts.get(counted, 0) + 1
        decision = decide(watch.kind, watch.timing, watch.history, result.outcome)
        watch.history = decision.history
        if decision.on_hold:
            watch.on_hold = True
            watch.hold()
        else:
            self._schedule(uid, watch, next_due(due, watch.timing.period, self._context.clock.monotonic()))
        self._report(uid, watch, result)
        if decision.passes is not None and decision.passes is not watch.passes:
            watch.passes = decision.passes
            self._facts[uid] = _facts_of(self._pods[uid])
            self._changes.handle(PodHealthChanged(uid))

    def _report(self, uid: PodUid, watch: _Watch, result: ProbeResult) -> None:
        if result.outcome is ProbeOutcome.SUCCESS and not result.warns:
            return
        name, kind = watch.container.name, watch.kind.value
        what, tell = self._telling[result.outcome]
        pod = self._known.pod(uid)
        about = uid if pod is None else ref_of(pod)
        _log.info("pod %s: %s probe of container %s %s: %s", about, kind, name, what, result.text)
        if pod is not None:
            tell(pod, name, kind, result.text)


def _probed(pod: Pod, facts: PodFacts) -> Iterator[tuple[ContainerId, tuple[Container, ContainerFacts]]]:
    for container in probed_containers(pod):
        newest = facts.newest(container.name)
        if newest is not None and newest.running:
            yield newest.id, (container, newest)


def _renew(watches: dict[ProbeKind, _Watch], container: Container, running: ContainerFacts) -> None:
    """Restart probes that changed in the pod; their results stay until the first new ones."""
    probes = probes_of(container)
    for kind in [each for each in watches if each not in probes]:
        watches.pop(kind).end()
    for kind, probe in probes.items():
        old = watches.get(kind)
        if old is None or old.probe != probe:
            watches[kind] = _Watch(kind, probe, running)
        if old is not None and old.probe != probe:
            watches[kind].passes = old.passes
            watches[kind].on_hold = old.on_hold
            old.end()


def _set_passing(watches: dict[ProbeKind, _Watch]) -> None:
    """Let startup and liveness probes of a terminating pod pass (as kubelet's prober worker does): it is not killed for
    them, and counts as started.
    """
    for kind in (ProbeKind.STARTUP, ProbeKind.LIVENESS):
        if kind in watches:
            watches[kind].passes = True


def _facts_of(watches: _Watches) -> ProbeFacts:
    def results_of(kind: ProbeKind) -> dict[ContainerId, bool]:
        results = ((identity, probes[kind].passes) for identity, probes in watches.items() if kind in probes)
        return {identity: passes for identity, passes in results if passes is not None}

    return ProbeFacts(
        liveness=results_of(ProbeKind.LIVENESS),
        readiness=results_of(ProbeKind.READINESS),
        startup=results_of(ProbeKind.STARTUP),
    )


def _reported(pod: Pod, identity: ContainerId) -> ContainerStatus | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.container_id.partition("://")[2] == identity), None)


def _container(pod: Pod, name: str) -> Container | None:
    return next((c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name == name), None)
