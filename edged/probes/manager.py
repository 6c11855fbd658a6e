"""The probes of all pods of the node: which are asked, when, and what is known by them. Lives on the edged module's
thread; a pod without probes costs it a look at the pod's containers whenever the pod changes.

What is known belongs to one instance of a container: the next one begins without it.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from beehive import Clock, Timer
from edged.api import Container, ContainerStatus, Pod
from edged.api.probes import Probe
from edged.cri.contract import ContainerId
from edged.events.pods import PodEvents
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, PodFacts, PodUid, ProbeFacts
from edged.probes.crew import Crew
from edged.probes.decide import History, decide, is_asked
from edged.probes.errors import TargetError
from edged.probes.model import Answer, Outcome, ProbeKind, Timing, probed_containers, probes_of
from edged.probes.runner import Attempt
from edged.probes.schedule import first_wait, next_due, spread
from edged.probes.targets import probe_target

_log = logging.getLogger(__name__)

_NOTHING = ProbeFacts()


class Turns(Protocol):
    """The module on whose thread this lives."""

    @property
    def clock(self) -> Clock:
        """Time and randomness."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class _Watch:
    """One probe of one running container."""

    __slots__ = ("container", "due", "history", "kind", "over", "probe", "rests", "timer", "timing", "verdict")

    def __init__(self, kind: ProbeKind, probe: Probe, container: ContainerFacts) -> None:
        self.kind = kind
        self.probe = probe
        self.timing = Timing.of(probe)
        self.container = container
        self.history = History()
        self.verdict: bool | None = None
        self.rests = False
        self.over = False
        """The container has ended, or its probe is another one now."""
        self.due: float | None = None
        """When it is asked next; None while it is held back or rests."""
        self.timer: Timer | None = None

    def hold(self) -> None:
        """Ask no more for now."""
        self.due = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def end(self) -> None:
        """Ask never again."""
        self.over = True
        self.hold()


_Watches = dict[ContainerId, dict[ProbeKind, _Watch]]


class ProbeManager:
    """See the module's docstring.

    Args:
        turns: the module.
        crew: asks.
        find: the pod of a uid as it is now, for its address.
        changed: told whenever something else is known of a pod than before.
        events: is told of probes that fail.
    """

    def __init__(
        self,
        turns: Turns,
        crew: Crew,
        find: Callable[[PodUid], Pod | None],
        changed: Callable[[PodUid], None],
        events: PodEvents,
    ) -> None:
        self._events = events
        self._turns = turns
        self._crew = crew
        self._find = find
        self._changed = changed
        self._began = turns.clock.monotonic()
        self._pods: dict[PodUid, _Watches] = {}
        self._facts: dict[PodUid, ProbeFacts] = {}

    def facts(self, uid: PodUid) -> ProbeFacts:
        """What is known by now of a pod's containers."""
        return self._facts.get(uid, _NOTHING)

    def follow(self, pod: Pod, facts: PodFacts, *, going: bool) -> None:
        """A pod is wanted like this and runs like this: probes begin and end with its containers."""
        uid = ref_of(pod).uid
        watches = self._pods.get(uid, {})
        probed = dict(_probed(pod, facts))
        if not probed and not watches:
            return
        for gone in [each for each in watches if each not in probed]:
            for watch in watches.pop(gone).values():
                watch.end()
        for identity, (container, running) in probed.items():
            if identity not in watches:
                watches[identity] = self._take_up(pod, container, running)
            _renew(watches[identity], container, running)
            self._arm(uid, watches[identity], going=going)
        self._keep(uid, watches)

    def forget(self, uid: PodUid) -> None:
        """A pod is gone."""
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
                self._crew.rest()

    def _take_up(self, pod: Pod, container: Container, running: ContainerFacts) -> dict[ProbeKind, _Watch]:
        """The probes of a container that runs. One that ran before this agent began stays what it was reported to be
        until a probe says otherwise (kubelet's ChangeContainerStatusOnKubeletRestart=false): the agent's restart is no
        reason to take it out of service.
        """
        watches = {kind: _Watch(kind, probe, running) for kind, probe in probes_of(container).items()}
        reported = _reported(pod, running.id)
        if reported is not None and reported.state.running is not None:
            for kind, held in ((ProbeKind.STARTUP, reported.started), (ProbeKind.READINESS, reported.ready)):
                if kind in watches and held:
                    watches[kind].verdict = True
                    watches[kind].rests = kind is ProbeKind.STARTUP
        return watches

    def _arm(self, uid: PodUid, watches: dict[ProbeKind, _Watch], *, going: bool) -> None:
        """Let those be asked whose time has come, and hold the others back."""
        startup = watches.get(ProbeKind.STARTUP)
        if going:
            _let_pass(watches)
        started = startup is None or startup.verdict is True
        for watch in watches.values():
            if watch.rests or not is_asked(watch.kind, started=started, going=going):
                watch.hold()
            elif watch.due is None:
                self._schedule(uid, watch, self._first(watch))

    def _first(self, watch: _Watch) -> float:
        clock, timing = self._turns.clock, watch.timing
        now = clock.monotonic()
        age = (clock.now_ns() - watch.container.started_at) / 1e9
        return now + first_wait(timing.delay, age) + spread(timing.period, now - self._began, clock.random.random())

    def _schedule(self, uid: PodUid, watch: _Watch, due: float) -> None:
        watch.due = due
        wait = max(0.0, due - self._turns.clock.monotonic())
        watch.timer = self._turns.after(wait, lambda: self._ask(uid, watch))

    def _ask(self, uid: PodUid, watch: _Watch) -> None:
        watch.timer = None
        pod = self._find(uid)
        container = _container(pod, watch.container.name) if pod is not None else None
        if pod is None or container is None:
            return
        due = watch.due
        try:
            target = probe_target(watch.probe, container, pod.status.pod_ip)
        except TargetError as error:
            self._take(uid, watch, due, Answer(Outcome.UNKNOWN, str(error)))
            return
        attempt = Attempt(watch.container.id, target, watch.timing.limit)
        self._crew.ask(uid, attempt, lambda answer: self._take(uid, watch, due, answer), lambda: watch.due == due)

    def _take(self, uid: PodUid, watch: _Watch, due: float | None, answer: Answer) -> None:
        """An answer has come. One that was asked for before the probe was held back is not heard any more."""
        if watch.over or due is None or watch.due != due:
            return
        judgement = decide(watch.kind, watch.timing, watch.history, answer.outcome)
        watch.history = judgement.history
        if judgement.rests:
            watch.rests = True
            watch.hold()
        else:
            self._schedule(uid, watch, next_due(due, watch.timing.period, self._turns.clock.monotonic()))
        self._tell(uid, watch, answer)
        if judgement.verdict is not None and judgement.verdict is not watch.verdict:
            watch.verdict = judgement.verdict
            self._facts[uid] = _facts_of(self._pods[uid])
            self._changed(uid)

    def _tell(self, uid: PodUid, watch: _Watch, answer: Answer) -> None:
        if answer.outcome is Outcome.SUCCESS:
            return
        name, kind, failed = watch.container.name, watch.kind.value, answer.outcome is Outcome.FAILURE
        what = "failed" if failed else "could not be asked"
        _log.info("pod %s: %s probe of container %s %s: %s", uid, kind, name, what, answer.text)
        pod = self._find(uid)
        if pod is not None:
            tell = self._events.unhealthy if failed else self._events.cannot_be_asked
            tell(pod, name, kind, answer.text)


def _probed(pod: Pod, facts: PodFacts) -> Iterator[tuple[ContainerId, tuple[Container, ContainerFacts]]]:
    for container in probed_containers(pod):
        newest = facts.newest(container.name)
        if newest is not None and newest.running:
            yield newest.id, (container, newest)


def _renew(watches: dict[ProbeKind, _Watch], container: Container, running: ContainerFacts) -> None:
    """A probe that was changed in the pod begins anew, and what was known by it holds until it says otherwise."""
    wanted = probes_of(container)
    for kind in [each for each in watches if each not in wanted]:
        watches.pop(kind).end()
    for kind, probe in wanted.items():
        old = watches.get(kind)
        if old is None or old.probe != probe:
            watches[kind] = _Watch(kind, probe, running)
        if old is not None and old.probe != probe:
            watches[kind].verdict = old.verdict
            watches[kind].rests = old.rests
            old.end()


def _let_pass(watches: dict[ProbeKind, _Watch]) -> None:
    """A pod that is to end is not killed for being unwell; what had not started counts as started (kubelet's prober
    worker sets both results to success).
    """
    for kind in (ProbeKind.STARTUP, ProbeKind.LIVENESS):
        if kind in watches:
            watches[kind].verdict = True


def _facts_of(watches: _Watches) -> ProbeFacts:
    def known_by(kind: ProbeKind) -> dict[ContainerId, bool]:
        verdicts = ((identity, probes[kind].verdict) for identity, probes in watches.items() if kind in probes)
        return {identity: verdict for identity, verdict in verdicts if verdict is not None}

    return ProbeFacts(
        liveness=known_by(ProbeKind.LIVENESS),
        readiness=known_by(ProbeKind.READINESS),
        startup=known_by(ProbeKind.STARTUP),
    )


def _reported(pod: Pod, identity: ContainerId) -> ContainerStatus | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.container_id.partition("://")[2] == identity), None)


def _container(pod: Pod, name: str) -> Container | None:
    return next((c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name == name), None)
