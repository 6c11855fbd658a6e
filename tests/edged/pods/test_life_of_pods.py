"""Laws of a pod's life, on made-up machines where anything may happen at any time.

A small model of a runtime carries out what `compute_pod_actions` says; between syncs containers end,
sandboxes die and time passes at random. Whatever happens, the laws hold after every round.
"""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edged.pods.actions import ContainerStart, PodActions, compute_pod_actions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.facts import pod_facts
from edged.pods.hash import container_hash
from edged.pods.model import ContainerFacts, ContainerId, PodFacts, RunState, SandboxFacts, SandboxId
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, Nanoseconds, Pod, seconds
from tests.edged.pods.builders import REF, T0, UID, a_container, a_pod


@dataclass
class Machine:
    """A runtime of one pod, as far as decisions see it."""

    pod: Pod
    now: Nanoseconds = T0
    sandboxes: list[SandboxFacts] = field(default_factory=list)
    containers: list[ContainerFacts] = field(default_factory=list)
    backoffs: BackOffs = field(default_factory=BackOffs)

    def facts(self) -> PodFacts:
        return pod_facts(REF, self.sandboxes, self.containers)

    def plan(self) -> PodActions:
        return compute_pod_actions(self.pod, self.facts(), self.now, self.backoffs)

    def round(self) -> PodActions:
        """Decide and carry out."""
        actions = self.plan()
        if actions.kill_pod:
            self.containers = [self.ended(c, 137) for c in self.containers]
            self.sandboxes = [replace(s, ready=False) for s in self.sandboxes]
        doomed = {kill.container.id for kill in actions.kill}
        self.containers = [self.ended(c, 137) if c.id in doomed else c for c in self.containers]
        if actions.create_sandbox:
            self.tick()
            made = SandboxFacts(SandboxId(f"s{actions.attempt}"), actions.attempt, ready=True, created_at=self.now)
            self.sandboxes.append(made)
        for start in actions.start_init + actions.start:
            self.start(start)
        return actions

    def start(self, start: ContainerStart) -> None:
        self.tick()
        if start.after is not None:
            self.backoffs.advance(container_key(UID, start.container), start.after, self.now)
        self.containers.append(
            ContainerFacts(
                id=ContainerId(f"{start.container.name}-{start.attempt}"),
                sandbox_id=self.sandboxes[-1].id,
                name=start.container.name,
                attempt=start.attempt,
                state=RunState.RUNNING,
                created_at=self.now,
                started_at=self.now,
                hash=container_hash(start.container),
            )
        )

    def ended(self, container: ContainerFacts, code: int) -> ContainerFacts:
        if not container.running:
            return container
        return replace(container, state=RunState.EXITED, exit_code=code, finished_at=self.now)

    def tick(self, length: float = 0.001) -> None:
        self.now = Nanoseconds(self.now + seconds(length))


_EVENTS = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 5), st.sampled_from([0, 0, 1])),
    st.tuples(st.just("sandbox"), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([1, 30, 400, 2000]), st.just(0)),
    st.tuples(st.just("image"), st.integers(0, 1), st.integers(0, 3)),
)
_INITS = st.sampled_from(
    [
        (),
        (a_container("i1"),),
        (a_container("i1"), a_container("i2")),
        (a_container("side", restart_policy="Always"), a_container("i1")),
    ]
)
_PODS = st.builds(
    lambda init, restart, count: a_pod(*map(a_container, "ab"[:count]), init=init, restart=restart),
    _INITS,
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.integers(1, 2),
)
_LIVES = st.lists(_EVENTS, max_size=25)


def happen(machine: Machine, event: tuple[str, int, int]) -> None:
    """Let one thing go its way."""
    kind, which, code = event
    machine.tick(which if kind == "wait" else 0.5)
    alive = [index for index, c in enumerate(machine.containers) if c.running]
    if kind == "end" and alive:
        index = alive[which % len(alive)]
        machine.containers[index] = machine.ended(machine.containers[index], code)
    elif kind == "sandbox" and machine.sandboxes:
        machine.containers = [machine.ended(c, 137) for c in machine.containers]
        machine.sandboxes[-1] = replace(machine.sandboxes[-1], ready=False)
    elif kind == "image":
        containers = machine.pod.spec.containers
        changed = tuple(
            replace(c, image=f"busybox:{code}") if index == which else c for index, c in enumerate(containers)
        )
        machine.pod = replace(machine.pod, spec=replace(machine.pod.spec, containers=changed))


def initialized(machine: Machine) -> bool:
    """Whether every init container has done its part in the present sandbox."""
    return all(_has_done_its_part(machine, container) for container in machine.pod.spec.init_containers)


def _has_done_its_part(machine: Machine, container: Container) -> bool:
    here = [c for c in machine.containers if c.name == container.name and c.sandbox_id == machine.sandboxes[-1].id]
    return any(is_sidecar(container) or c.succeeded for c in here)


@given(_PODS, _LIVES)
def test_laws_hold_through_any_life(pod: Pod, life: list[tuple[str, int, int]]) -> None:
    """Never two running containers of a name; none outside the newest sandbox; regular ones only after
    initialization; after as many looks as there are init containers, there is nothing more to do.
    """
    machine = Machine(pod)
    for event in [("wait", 1, 0), *life]:
        happen(machine, event)
        actions = machine.round()
        for _ in pod.spec.init_containers:
            actions = actions if machine.plan().nothing else machine.round()
        alive = [c for c in machine.containers if c.running]
        assert len({c.name for c in alive}) == len(alive)
        assert all(c.sandbox_id == machine.sandboxes[-1].id for c in alive)
        assert sum(s.ready for s in machine.sandboxes) <= 1
        if actions.start:
            assert initialized(machine)
        assert machine.plan().nothing


@given(_PODS, _LIVES)
def test_never_means_once(pod: Pod, life: list[tuple[str, int, int]]) -> None:
    """With Never no container runs twice, and after a failed init container nothing starts, unless it was
    changed.
    """
    machine = Machine(replace(pod, spec=replace(pod.spec, restart_policy="Never")))
    for event in [("wait", 1, 0), *(e for e in life if e[0] != "image")]:
        happen(machine, event)
        failed = any(
            c.state is RunState.EXITED and c.exit_code and not is_sidecar(spec)
            for spec in machine.pod.spec.init_containers
            for c in machine.containers
            if c.name == spec.name
        )
        actions = machine.round()
        if failed:
            assert not actions.start
            assert not actions.start_init
    for container in machine.pod.spec.containers:
        assert sum(c.name == container.name for c in machine.containers) <= 1


@given(_PODS, _LIVES)
def test_every_pod_gets_where_it_wants(pod: Pod, life: list[tuple[str, int, int]]) -> None:
    """When nothing happens any more but init containers succeeding and time passing, every pod comes to rest:
    all its containers run, or it has finished for good.
    """
    machine = Machine(pod)
    for event in life:
        happen(machine, event)
        machine.round()
    ordinary = {c.name for c in pod.spec.init_containers if not is_sidecar(c)}
    for _ in range(12):
        machine.tick(601)
        machine.round()
        machine.containers = [machine.ended(c, 0) if c.name in ordinary else c for c in machine.containers]
    alive = {c.name for c in machine.containers if c.running}
    wanted = {c.name for c in pod.spec.containers}
    finished = {c.name for c in machine.containers if c.state is RunState.EXITED}
    if pod.spec.restart_policy == "Always":
        assert wanted <= alive
    elif pod.spec.restart_policy == "OnFailure":
        assert wanted <= alive | finished
    assert machine.plan().nothing
