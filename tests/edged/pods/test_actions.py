"""A pod is brought to what is wanted with kubelet's rules, step by step."""

import pytest
from msgspec.structs import replace

from edged.pods.actions import ContainerKill, ContainerStart, ContainerWait, PodActions, compute_pod_actions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.hash import container_hash
from edged.pods.model import (
    ContainerFacts,
    ContainerId,
    HookFacts,
    PodFacts,
    ProbeFacts,
    RunState,
    SandboxFacts,
    SandboxId,
)
from edged.pods.unhealthy import KillReason
from modules.apimachinery.types import Container, Pod, PodStatus, Probe, seconds
from tests.edged.pods.builders import UID, a_container, a_pod, a_sandbox, at, exited, facts, running

A, B, C = a_container("a"), a_container("b"), a_container("c")
I1, I2, I3 = a_container("i1"), a_container("i2"), a_container("i3")
SIDE, SIDE2 = (a_container(name, restart_policy="Always") for name in ("side", "side2"))
DEAD = (a_sandbox(ready=False),)


def plan(pod: Pod, known: PodFacts, probes: ProbeFacts | None = None, hooks: HookFacts | None = None) -> PodActions:
    return compute_pod_actions(pod, known, at(1000), BackOffs(), probes, hooks)


def starts(actions: PodActions) -> list[str]:
    return [f"{start.container.name}:{start.attempt}" for start in actions.start_init + actions.start]


def kills(actions: PodActions) -> list[str]:
    return [f"{kill.container.id}:{kill.reason.name}" for kill in actions.kill]


def ended_for_good(actions: PodActions) -> list[str]:
    return [kill.container.id for kill in actions.kill if not kill.restarts]


def test_new_pod_gets_a_sandbox_and_all_its_containers() -> None:
    """Without facts everything is made, nothing killed."""
    actions = plan(a_pod(A, B), facts(sandboxes=()))
    assert (actions.create_sandbox, actions.kill_pod, actions.attempt) == (True, False, 0)
    assert starts(actions) == ["a:0", "b:0"]


def test_new_pod_with_init_containers_starts_only_the_first() -> None:
    """Init containers are started one by one, regular ones not before."""
    assert starts(plan(a_pod(A, init=(I1, I2)), facts(sandboxes=()))) == ["i1:0"]


def test_running_pod_is_left_alone() -> None:
    """When everything is as wanted there is nothing to do."""
    assert plan(a_pod(A, B), facts(running(A), running(B))).nothing


@pytest.mark.parametrize(
    ("restart", "code", "expected"),
    [
        ("Always", 0, ["a:1"]),
        ("Always", 1, ["a:1"]),
        ("", 1, ["a:1"]),
        ("OnFailure", 0, []),
        ("OnFailure", 1, ["a:1"]),
        ("Never", 0, []),
        ("Never", 1, []),
    ],
)
def test_restart_policy_decides_about_ended_containers(restart: str, code: int, expected: list[str]) -> None:
    """Beside a running container, an ended one is started again exactly when the policy says so."""
    actions = plan(a_pod(A, B, restart=restart), facts(exited(A, code), running(B)))
    assert starts(actions) == expected
    assert not actions.kill_pod


@pytest.mark.parametrize(("restart", "code"), [("Never", 0), ("Never", 1), ("OnFailure", 0)])
def test_finished_pod_loses_its_sandbox(restart: str, code: int) -> None:
    """When nothing is left to run the sandbox is stopped and not made again."""
    pod = a_pod(A, restart=restart)
    actions = plan(pod, facts(exited(A, code)))
    assert actions.kill_pod
    assert not actions.create_sandbox
    assert plan(pod, facts(exited(A, code), sandboxes=DEAD)).nothing


def test_changed_image_restarts_only_what_changed() -> None:
    """The other container of the pod is neither killed nor started."""
    newer = a_container("a", image="busybox:1.36")
    actions = plan(a_pod(newer, B, restart="Never"), facts(running(A), running(B)))
    assert kills(actions) == ["a-0:DEFINITION_CHANGED"]
    assert actions.kill[0].message == "Container a definition changed, will be restarted"
    assert starts(actions) == ["a:1"]
    assert actions.sandbox == SandboxId("s0")


@pytest.mark.parametrize("recorded", ["", "8f3a21c9"])
def test_container_of_another_agent_is_adopted(recorded: str) -> None:
    """A container whose fingerprint is missing or a kubelet's is not restarted for that."""
    assert plan(a_pod(A), facts(running(A, hash=recorded))).nothing


def test_changed_probe_restarts_nothing() -> None:
    """What the process cannot see is applied without a restart."""
    probed = a_container("a", liveness_probe=Probe(period_seconds=1))
    assert plan(a_pod(probed), facts(running(A))).nothing


@pytest.mark.parametrize(
    ("restart", "expected", "kill_pod"),
    [("Always", ["a:1"], False), ("OnFailure", ["a:1"], False), ("Never", [], True)],
)
def test_failed_liveness_probe_kills(restart: str, expected: list[str], *, kill_pod: bool) -> None:
    """An unhealthy container is killed, and started again unless the policy is Never."""
    probes = ProbeFacts(liveness={ContainerId("a-0"): False})
    actions = plan(a_pod(A, restart=restart), facts(running(A)), probes)
    assert (kills(actions) == ["a-0:LIVENESS_PROBE"]) is not kill_pod
    assert (starts(actions), actions.kill_pod) == (expected, kill_pod)


def test_container_in_an_unknown_state_is_started_again() -> None:
    """It counts as not started, whatever the policy, and is killed first."""
    actions = plan(a_pod(A, B, restart="Never"), facts(running(A, state=RunState.UNKNOWN), running(B)))
    assert starts(actions) == ["a:1"]
    assert (kills(actions), ended_for_good(actions)) == (["a-0:UNKNOWN_STATE"], [])


@pytest.mark.parametrize(("restart", "for_good"), [("Always", []), ("OnFailure", []), ("Never", ["a-0"])])
def test_a_container_whose_hook_has_failed_is_killed_and_started_by_a_later_sync(
    restart: str, for_good: list[str]
) -> None:
    """Its back-off counts from its end. The pod is not taken for ended meanwhile."""
    hooks = HookFacts(failed={ContainerId("a-0"): "exit code 1"})
    actions = plan(a_pod(A, B, restart=restart), facts(running(A), running(B)), hooks=hooks)
    assert (kills(actions), ended_for_good(actions), starts(actions)) == (["a-0:START_HOOK"], for_good, [])
    alone = plan(a_pod(A, restart=restart), facts(running(A)), hooks=hooks)
    assert alone.kill_pod == (restart == "Never")


def test_containers_are_not_started_while_a_hook_before_them_runs() -> None:
    pod, known = a_pod(A, B, C), facts(running(A), running(B))
    for name, expected in (("a-0", []), ("b-0", []), ("c-0", ["c:0"])):
        assert starts(plan(pod, known, hooks=HookFacts(running=frozenset({ContainerId(name)})))) == expected


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (running(A, state=RunState.CREATED), "a:0"),
        (running(A, attempt=3, state=RunState.CREATED), "a:3"),
        (running(A, state=RunState.CREATED, hash=container_hash(B)), "a:1"),
        (running(A, state=RunState.CREATED, sandbox_id=SandboxId("s9")), "a:1"),
    ],
    ids=["first", "later", "definition changed", "of another sandbox"],
)
def test_container_that_was_made_and_never_started(left: ContainerFacts, expected: str) -> None:
    """It is taken up under its own number, whatever the policy, when it is as the pod wants it."""
    actions = plan(a_pod(A, B, restart="Never"), facts(left, running(B)))
    assert (starts(actions), kills(actions)) == ([expected], [])


@pytest.mark.parametrize(
    "sandboxes",
    [(a_sandbox(ready=False),), (a_sandbox(), a_sandbox(1)), (a_sandbox(host_network=True),), (a_sandbox(ips=()),)],
    ids=["not ready", "two ready", "network changed", "no address"],
)
def test_bad_sandbox_is_replaced_with_all_containers(sandboxes: tuple[SandboxFacts, ...]) -> None:
    """Everything of the pod is killed and made again, under the next number."""
    actions = plan(a_pod(A), facts(running(A), sandboxes=sandboxes))
    assert (actions.kill_pod, actions.create_sandbox, actions.attempt) == (True, True, len(sandboxes))
    assert starts(actions) == ["a:1"]


def test_host_network_pod_needs_no_address() -> None:
    """A sandbox in the host's network is good without one, as is one whose runtime says nothing of networks."""
    assert plan(
        a_pod(A, host_network=True), facts(running(A), sandboxes=(a_sandbox(host_network=True, ips=()),))
    ).nothing
    assert plan(a_pod(A), facts(running(A), sandboxes=(a_sandbox(ips=None),))).nothing


def test_lost_sandbox_restarts_only_containers_without_success() -> None:
    """With OnFailure a container that succeeded stays finished even when the sandbox is made again. The former one is
    stopped first, because its network is still there.
    """
    actions = plan(a_pod(A, B, restart="OnFailure"), facts(exited(A), exited(B, 1), sandboxes=DEAD))
    assert (actions.kill_pod, actions.create_sandbox) == (True, True)
    assert starts(actions) == ["b:1"]


def test_a_container_that_never_started_in_a_lost_sandbox_has_not_run() -> None:
    made = running(A, state=RunState.CREATED)
    assert starts(plan(a_pod(A, restart="Never"), facts(made, sandboxes=DEAD))) == ["a:1"]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (facts(), ["i1:0"]),
        (facts(running(I1)), []),
        (facts(exited(I1)), ["i2:0"]),
        (facts(exited(I1), running(I2)), []),
        (facts(exited(I1), exited(I2)), ["a:0"]),
        (facts(exited(I2)), ["a:0"]),
        (facts(running(A)), []),
        (facts(exited(I1, 1)), ["i1:1"]),
        (facts(running(I1, state=RunState.CREATED)), ["i1:0"]),
        (facts(exited(I1), exited(I2, 1)), ["i2:1"]),
        (facts(exited(I1), exited(I2), exited(A, 1)), ["a:1"]),
    ],
)
def test_init_containers_run_in_order(known: PodFacts, expected: list[str]) -> None:
    """Each starts after the success of the one before; a failed one is repeated; all done lets the others
    start.
    """
    assert starts(plan(a_pod(A, init=(I1, I2)), known)) == expected


def test_the_second_of_three_init_containers_follows_the_first() -> None:
    pod = a_pod(A, init=(I1, I2, I3))
    assert starts(plan(pod, facts(exited(I1)))) == ["i2:0"]
    assert starts(plan(pod, facts(exited(I1), exited(I2)))) == ["i3:0"]


@pytest.mark.parametrize(
    ("restart", "known", "expected", "killed"),
    [
        ("Always", facts(running(I1, state=RunState.UNKNOWN)), ["i1:1"], ["i1-0:UNKNOWN_STATE"]),
        ("OnFailure", facts(running(I1, state=RunState.UNKNOWN)), ["i1:1"], ["i1-0:UNKNOWN_STATE"]),
        ("Never", facts(running(I1, state=RunState.CREATED)), ["i1:0"], []),
        ("Never", facts(exited(I1, 1), running(A)), [], []),
        ("Always", facts(exited(I1, 1), running(A)), [], []),
        ("Always", facts(running(I1, state=RunState.UNKNOWN), running(A)), [], []),
    ],
)
def test_what_becomes_of_an_init_container_that_is_in_doubt(
    restart: str, known: PodFacts, expected: list[str], killed: list[str]
) -> None:
    """It runs again, also if it never started; beside a regular container it has had its time."""
    actions = plan(a_pod(A, init=(I1,), restart=restart), known)
    assert (starts(actions), kills(actions), ended_for_good(actions), actions.kill_pod) == (expected, killed, [], False)


def test_an_init_container_in_doubt_ends_a_pod_that_never_restarts() -> None:
    assert plan(a_pod(A, init=(I1,), restart="Never"), facts(running(I1, state=RunState.UNKNOWN))).kill_pod


def test_init_containers_of_an_older_sandbox_do_not_count() -> None:
    """After the sandbox was made again, initialization starts over although older successes are still there."""
    known = facts(
        exited(I1), exited(I2), running(I1, 1, sandbox_id="s1"), sandboxes=(a_sandbox(1), a_sandbox(ready=False))
    )
    assert plan(a_pod(A, init=(I1, I2)), known).nothing


@pytest.mark.parametrize("state", [RunState.CREATED, RunState.EXITED, RunState.UNKNOWN])
@pytest.mark.parametrize("left", [(A,), (I1, A), (I1, I2, A)])
def test_containers_of_an_older_sandbox_prove_no_initialization(state: RunState, left: tuple[Container, ...]) -> None:
    """Also a container that was only created: the agent was killed before its start, and then the sandbox was lost."""
    older = [running(container, state=state) for container in left]
    known = facts(*older, sandboxes=(a_sandbox(1), a_sandbox(ready=False)))
    assert [each.partition(":")[0] for each in starts(plan(a_pod(A, init=(I1, I2)), known))] == ["i1"]


def test_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    """With Never one failed init container ends the pod: it is killed and nothing is started, then or later."""
    pod = a_pod(A, init=(I1, I2), restart="Never")
    actions = plan(pod, facts(exited(I1, 1)))
    assert actions.kill_pod
    assert not starts(actions)
    assert plan(pod, facts(exited(I1, 1), sandboxes=DEAD)).nothing


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (facts(), ["side:0"]),
        (facts(running(SIDE)), ["i1:0"]),
        (facts(running(SIDE), running(I1)), []),
        (facts(running(SIDE), exited(I1)), ["a:0"]),
        (facts(exited(SIDE, 1)), ["side:1"]),
        (facts(exited(SIDE, 1), running(I1)), ["side:1"]),
        (facts(running(SIDE, state=RunState.UNKNOWN)), ["side:1"]),
        (facts(running(SIDE, state=RunState.UNKNOWN), exited(I1)), ["side:1", "a:0"]),
        (facts(exited(SIDE, 1), exited(I1), running(A)), ["side:1"]),
        (facts(exited(I1), running(A)), ["side:0"]),
    ],
)
def test_sidecars_are_started_in_turn_and_kept_running(known: PodFacts, expected: list[str]) -> None:
    """The next init container follows a sidecar's start, not its end; a dead sidecar is started again."""
    assert starts(plan(a_pod(A, init=(SIDE, I1)), known)) == expected


def test_sidecars_are_started_again_in_their_order() -> None:
    pod = a_pod(A, init=(SIDE, SIDE2))
    assert starts(plan(pod, facts(exited(SIDE, 1), exited(SIDE2, 1), running(A)))) == ["side:1", "side2:1"]
    assert starts(plan(pod, facts(running(A)))) == ["side:0", "side2:0"]


def test_a_sidecar_in_an_unknown_state_is_killed_first() -> None:
    actions = plan(a_pod(A, init=(SIDE, I1)), facts(running(SIDE, state=RunState.UNKNOWN)))
    assert (kills(actions), ended_for_good(actions)) == (["side-0:UNKNOWN_STATE"], [])


def test_the_hook_of_a_sidecar_holds_the_next_one_back() -> None:
    """One that has failed is killed, and started by a later sync."""
    pod, known, side = a_pod(A, init=(SIDE, I1)), facts(running(SIDE)), ContainerId("side-0")
    assert plan(pod, known, hooks=HookFacts(running=frozenset({side}))).nothing
    failed = plan(pod, known, hooks=HookFacts(failed={side: "exit code 1"}))
    assert (kills(failed), ended_for_good(failed), starts(failed)) == (["side-0:START_HOOK"], [], [])


def test_a_changed_sidecar_is_replaced_and_holds_nothing_back() -> None:
    changed = a_container("side", restart_policy="Always", image="busybox:1.36")
    actions = plan(a_pod(A, init=(changed, I1)), facts(running(SIDE)))
    assert (kills(actions), starts(actions)) == (["side-0:DEFINITION_CHANGED"], ["side:1", "i1:0"])


def test_sidecar_with_startup_probe_holds_the_next_one_back() -> None:
    """The next container waits for the probe's success."""
    side = a_container("side", restart_policy="Always", startup_probe=Probe())
    pod = a_pod(A, init=(side,))
    assert plan(pod, facts(running(side))).nothing
    assert starts(plan(pod, facts(running(side)), ProbeFacts(startup={ContainerId("side-0"): True}))) == ["a:0"]
    failed = plan(pod, facts(running(side)), ProbeFacts(startup={ContainerId("side-0"): False}))
    assert (kills(failed), starts(failed)) == (["side-0:STARTUP_PROBE"], ["side:1"])


def test_sidecars_do_not_keep_a_finished_pod_alive() -> None:
    """When the regular containers are done the pod is killed with its sidecars."""
    actions = plan(a_pod(A, init=(SIDE,), restart="Never"), facts(running(SIDE), exited(A)))
    assert (actions.kill_pod, starts(actions)) == (True, [])


def test_deleted_pod_is_killed_and_nothing_started() -> None:
    """A deletion mark overrules every restart policy; when nothing is left nothing is to be done."""
    pod = a_pod(A, B, meta={"deletion_timestamp": "2026-11-20T01:55:00Z"})
    assert plan(pod, facts(running(A), exited(B))) == PodActions(kill_pod=True)
    assert plan(pod, facts(exited(A), sandboxes=DEAD)).nothing


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_stays_ended(phase: str) -> None:
    """A pod whose phase is final is not run again, even if the runtime has forgotten it."""
    pod = a_pod(A, status=PodStatus(phase=phase))
    assert plan(pod, facts(sandboxes=())).nothing


def test_container_that_left_the_pod_is_killed() -> None:
    """A cloud that lets containers be removed gets them removed."""
    actions = plan(a_pod(A), facts(running(A), running(B)))
    assert (kills(actions), starts(actions), ended_for_good(actions)) == (["b-0:NOT_IN_POD"], [], ["b-0"])


def test_older_instance_beside_a_newer_one_is_killed() -> None:
    """Two instances of one container never stay."""
    actions = plan(a_pod(A), facts(running(A), running(A, 1)))
    assert (kills(actions), ended_for_good(actions)) == (["a-0:SUPERSEDED"], ["a-0"])


def _crashes(count: int) -> list[ContainerFacts]:
    return [exited(A, 1, attempt, finished_at=at(900)) for attempt in range(count)]


def test_crashing_container_waits_until_a_known_time() -> None:
    """After a recorded restart the next one waits ten seconds from the container's end; others are not held
    up.
    """
    backoffs = BackOffs()
    backoffs.advance(container_key(UID, A), at(880), at(880))
    pod, known = a_pod(A, B), facts(*_crashes(2), exited(B, 1))
    actions = compute_pod_actions(pod, known, at(909), backoffs)
    assert starts(actions) == ["b:1"]
    assert [(wait.container.name, wait.until) for wait in actions.waiting] == [("a", at(910))]
    assert actions.next_try == at(910)
    assert starts(compute_pod_actions(pod, known, at(910), backoffs)) == ["a:2", "b:1"]


def test_changed_container_does_not_wait_for_its_predecessor() -> None:
    """The back-off of the old image does not hold the new one."""
    backoffs = BackOffs()
    backoffs.advance(container_key(UID, A), at(880), at(880))
    pod = a_pod(replace(A, image="busybox:1.36"))
    assert starts(compute_pod_actions(pod, facts(*_crashes(2)), at(901), backoffs)) == ["a:2"]


def test_waiting_pod_is_not_mistaken_for_a_finished_one() -> None:
    """A pod whose only container waits keeps its sandbox."""
    backoffs = BackOffs()
    backoffs.advance(container_key(UID, A), at(880), at(880))
    actions = compute_pod_actions(a_pod(A), facts(*_crashes(1)), at(901), backoffs)
    assert actions.nothing
    assert actions.waiting


def test_the_first_of_several_waiting_containers_decides_when_the_pod_is_tried_again() -> None:
    """Each waits from its own end."""
    backoffs = BackOffs()
    for container in (A, B):
        backoffs.advance(container_key(UID, container), at(880), at(880))
    known = facts(exited(A, 1, finished_at=at(905)), exited(B, 1, finished_at=at(901)))
    actions = compute_pod_actions(a_pod(A, B), known, at(906), backoffs)
    assert {wait.container.name: wait.until for wait in actions.waiting} == {"a": at(915), "b": at(911)}
    assert actions.next_try == at(911)


@pytest.mark.parametrize(
    ("actions", "stops", "nothing"),
    [
        (PodActions(), False, True),
        (PodActions(kill_pod=True), True, False),
        (PodActions(kill=(ContainerKill(running(A), KillReason.NOT_IN_POD, restarts=False),)), True, False),
        (PodActions(create_sandbox=True), False, False),
        (PodActions(start_ephemeral=(ContainerStart(A, 0),)), False, False),
        (PodActions(start_init=(ContainerStart(A, 0),)), False, False),
        (PodActions(start=(ContainerStart(A, 0),)), False, False),
        (PodActions(waiting=(ContainerWait(A, at(1), seconds(1)),)), False, True),
    ],
)
def test_a_pod_has_nothing_to_do_when_no_step_is_left(actions: PodActions, *, stops: bool, nothing: bool) -> None:
    assert (actions.stops, actions.nothing) == (stops, nothing)


def test_every_fault_has_words() -> None:
    """Each reason for a kill completes the sentence of the event."""
    assert all(reason.value and not reason.value[0].isupper() for reason in KillReason)
