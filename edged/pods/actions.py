"""The next steps for a pod: the heart of edged (computePodActions of kubelet's runtime manager).

A worker carries the steps out in this order: kill the whole pod or single containers, create the sandbox, start init
containers, start containers. The decision has no effects, so callers may repeat it at any time; for a pod that needs
nothing it returns empty `PodActions`.

Only containers of the pod's present sandbox count. (A kubelet cannot tell sandboxes apart here, and for that reason
deletes all init containers when it makes a new sandbox.)
"""

from collections.abc import Iterable

from msgspec import Struct

from edged.pods.backoff import BackOffKey, BackOffs, container_key
from edged.pods.ephemeral import new_ephemeral
from edged.pods.init_containers import compute_init_container_actions
from edged.pods.model import ContainerFacts, HookFacts, PodFacts, ProbeFacts, RunState, SandboxId
from edged.pods.restart import can_restart, is_terminal, next_attempt, restarts_after, should_be_started
from edged.pods.sandbox import pod_sandbox_changed
from edged.pods.unhealthy import KillReason, kill_reason
from modules.apimachinery.types import Container, Nanoseconds, Pod


class ContainerStart(Struct, frozen=True, gc=False):
    """A container to start. `after` is the end of its predecessor, where back-off begins; None for the first."""

    container: Container
    attempt: int
    after: Nanoseconds | None = None


class ContainerKill(Struct, frozen=True, gc=False):
    """A container to stop. `restarts` means that the same sync or a later one starts it again."""

    container: ContainerFacts
    reason: KillReason
    restarts: bool

    @property
    def message(self) -> str:
        """The text of kubelet's Killing event."""
        ending = ", will be restarted" if self.restarts else ""
        return f"Container {self.container.name} {self.reason.value}{ending}"


class ContainerWait(Struct, frozen=True, gc=False):
    """A container in back-off: it keeps ending, and must not be started before `until`."""

    container: Container
    until: Nanoseconds
    delay: Nanoseconds


class PodActions(Struct, frozen=True, gc=False):
    """The steps of one sync, in the order of the fields.

    `kill_pod` means all present containers and sandboxes. `sandbox` is the one to start containers in when
    `create_sandbox` is false; `attempt` is its number, or the number of the sandbox to create.
    """

    kill_pod: bool = False
    kill: tuple[ContainerKill, ...] = ()
    create_sandbox: bool = False
    sandbox: SandboxId | None = None
    attempt: int = 0
    start_ephemeral: tuple[ContainerStart, ...] = ()
    start_init: tuple[ContainerStart, ...] = ()
    start: tuple[ContainerStart, ...] = ()
    waiting: tuple[ContainerWait, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the pod already runs as specified, or only waits."""
        return not (self.stops or self.create_sandbox or self.starts)

    @property
    def stops(self) -> bool:
        """Whether a step stops something that may run."""
        return self.kill_pod or bool(self.kill)

    @property
    def starts(self) -> tuple[ContainerStart, ...]:
        """All containers to start, in this order."""
        return (*self.start_ephemeral, *self.start_init, *self.start)

    @property
    def next_try(self) -> Nanoseconds | None:
        """When the first waiting container may be started, None when none waits."""
        return min((wait.until for wait in self.waiting), default=None)


def compute_pod_actions(
    pod: Pod,
    facts: PodFacts,
    now: Nanoseconds,
    backoffs: BackOffs,
    probes: ProbeFacts | None = None,
    hooks: HookFacts | None = None,
) -> PodActions:
    """Return the steps that bring the facts to the pod's spec.

    Pure: the same arguments give the same result.

        actions = compute_pod_actions(pod, pod_facts(ref_of(pod)), now, BackOffs())
        actions.create_sandbox  # True: a new pod has no sandbox yet
    """
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return _end(facts)
    sandbox = pod_sandbox_changed(pod, facts)
    planner = _Planner(pod, facts, now, backoffs, probes or ProbeFacts(), hooks or HookFacts())
    if sandbox.changed:
        return planner.with_new_sandbox(sandbox.attempt)
    return planner.in_sandbox(sandbox.present, sandbox.attempt)


def _end(facts: PodFacts) -> PodActions:
    return PodActions(kill_pod=facts.anything_running)


class _Planner:
    """One computation; a class only to spare its methods six arguments."""

    def __init__(
        self,
        pod: Pod,
        facts: PodFacts,
        now: Nanoseconds,
        backoffs: BackOffs,
        probes: ProbeFacts,
        hooks: HookFacts,
    ) -> None:
        self._pod = pod
        self._facts = facts
        self._now = now
        self._backoffs = backoffs
        self._probes = probes
        self._hooks = hooks
        self._sandbox: SandboxId | None = None
        self._waiting: list[ContainerWait] = []

    def with_new_sandbox(self, attempt: int) -> PodActions:
        """Start everything again, except containers that the restart policy considers finished."""
        if self._has_finished():
            return _end(self._facts)
        regular = [c for c in self._pod.spec.containers if not self._completed(c)]
        inits = self._pod.spec.init_containers[:1]
        start_init = self._starts(inits)
        start = () if inits else self._starts(regular)
        return PodActions(
            kill_pod=bool(self._facts.sandboxes) or self._facts.anything_running,
            create_sandbox=True,
            attempt=attempt,
            start_init=start_init,
            start=start,
            waiting=tuple(self._waiting),
        )

    def in_sandbox(self, sandbox: SandboxId | None, attempt: int) -> PodActions:
        """Continue the initialization in the present sandbox, or kill and start single containers."""
        self._sandbox = sandbox
        progress = compute_init_container_actions(self._pod, self._facts, self._probes, self._hooks)
        if progress.failed:
            return _end(self._facts)
        kill = [ContainerKill(facts, reason, restarts=True) for facts, reason in progress.kill] + self._strays()
        inits = [self._pod.spec.init_containers[index] for index in progress.start]
        if not progress.done:
            start: list[Container] = []
        else:
            start, more_kills, kept = self._regular()
            if not start and not kept:
                return _end(self._facts)
            kill += more_kills
        return PodActions(
            kill=tuple(kill),
            sandbox=sandbox,
            attempt=attempt,
            start_ephemeral=self._starts(new_ephemeral(self._pod, self._facts)),
            start_init=self._starts(inits),
            start=self._starts(start),
            waiting=tuple(self._waiting),
        )

    def _regular(self) -> tuple[list[Container], list[ContainerKill], int]:
        """Return the containers to start, the containers to kill, and how many stay as they are.

        While a container's postStart hook runs, the containers after it are not started. A container whose hook has
        failed is killed, and started again by a later sync: its back-off counts from its end.
        """
        start: list[Container] = []
        kill: list[ContainerKill] = []
        kept = 0
        held = False
        for container in self._pod.spec.containers:
            last = self._facts.newest(container.name)
            if last is None or not last.running:
                if not held and should_be_started(self._pod, container, last):
                    start.append(container)
                    if last is not None and last.state is RunState.UNKNOWN:
                        kill.append(ContainerKill(last, KillReason.UNKNOWN_STATE, restarts=True))
                continue
            held = held or self._hooks.holds(last.id)
            reason = kill_reason(container, last, self._probes, self._hooks)
            if reason is None:
                kept += 1
                continue
            if reason is KillReason.START_HOOK:
                restarts = can_restart(self._pod, container)
                kill.append(ContainerKill(last, reason, restarts))
                kept += restarts
                continue
            restarts = reason is KillReason.DEFINITION_CHANGED or can_restart(self._pod, container)
            kill.append(ContainerKill(last, reason, restarts))
            if restarts:
                start.append(container)
        return start, kill, kept

    def _strays(self) -> list[ContainerKill]:
        """Return running containers that are no longer in the pod, or run beside a newer one of their name."""
        names = {container.name for container in self._pod.spec.all_containers}
        strays = []
        for container in (c for c in self._facts.containers if c.running):
            if container.name not in names:
                strays.append(ContainerKill(container, KillReason.NOT_IN_POD, restarts=False))
            elif container is not self._facts.newest(container.name):
                strays.append(ContainerKill(container, KillReason.SUPERSEDED, restarts=False))
        return strays

    def _starts(self, containers: Iterable[Container]) -> tuple[ContainerStart, ...]:
        """Return the containers that may be started now; note the others as waiting."""
        ready = []
        for container in containers:
            start = self._start_of(container)
            key = container_key(self._facts.ref.uid, container)
            until = self._ready_at(key, start.after)
            if until <= self._now:
                ready.append(start)
            else:
                self._waiting.append(ContainerWait(container, until, self._backoffs.delay(key)))
        return tuple(ready)

    def _ready_at(self, key: BackOffKey, last_end: Nanoseconds | None) -> Nanoseconds:
        """Return the end of the back-off. An end in the future means that the clock was set back: then nothing waits
        for it.
        """
        return self._now if last_end is None or last_end > self._now else self._backoffs.ready_at(key, last_end)

    def _start_of(self, container: Container) -> ContainerStart:
        ended = (c for c in self._facts.containers if c.name == container.name and c.state is RunState.EXITED)
        last_end = next((c.finished_at for c in ended), None)
        return ContainerStart(container, next_attempt(self._facts, container, self._sandbox), last_end)

    def _completed(self, container: Container) -> bool:
        """Return whether a container has run and must not run again."""
        last = self._facts.newest(container.name)
        if last is None or last.state is RunState.CREATED:
            return False
        if last.state is RunState.EXITED:
            return not restarts_after(self._pod, container, last.exit_code)
        return not can_restart(self._pod, container)

    def _has_finished(self) -> bool:
        """Return whether a pod that lost its sandbox has nothing left to run (it is complete, or must not run twice).

        A container that was created and never started has not run. (A kubelet counts it, and the pod is Pending for
        ever.)
        """
        regular = self._pod.spec.containers
        if not any(can_restart(self._pod, container) for container in regular):
            had_containers = any(c.state is not RunState.CREATED for c in self._facts.containers)
            return bool(self._facts.sandboxes) and had_containers
        return bool(regular) and all(self._completed(container) for container in regular)
