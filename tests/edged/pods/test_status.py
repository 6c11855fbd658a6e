"""The status of a pod says what a kubelet would say."""

from typing import Any

import pytest
from msgspec.structs import replace

from edged.pods.actions import ContainerWait
from edged.pods.kill_options import KillOptions
from edged.pods.model import ContainerFacts, ContainerId, PodFacts, ProbeFacts, RunState
from edged.pods.pod_status.phase import pod_phase
from edged.pods.pod_status.status import NodeView, crash_loop, go_duration, pod_status
from modules.apimachinery.types import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodIP,
    PodReadinessGate,
    PodStatus,
    Probe,
    ResourceRequirements,
    Time,
    VolumeMount,
    format_time,
    seconds,
)
from tests.edged.pods.builders import REF, a_container, a_pod, a_sandbox, at, exited, facts, running

NODE = NodeView(ips=("192.0.2.2",), runtime="containerd")
A, B = a_container("a"), a_container("b")
I1, I2 = a_container("i1"), a_container("i2")
SIDE = a_container("side", restart_policy="Always")


def status_of(pod: Pod, known: PodFacts, **more: Any) -> PodStatus:
    return pod_status(pod, known, NODE, at(100), **more)


def states(status: PodStatus) -> dict[str, str]:
    """The state of each container in a word: reason of waiting, `running`, or the exit code."""
    words = {}
    for container in status.init_container_statuses + status.container_statuses:
        state = container.state
        if state.running:
            words[container.name] = "running"
        else:
            ended = state.terminated
            words[container.name] = str(ended.exit_code) if ended else (state.waiting.reason if state.waiting else "?")
    return words


def conditions(status: PodStatus) -> dict[str, str]:
    return {c.type: f"{c.status} {c.reason}".strip() for c in status.conditions}


@pytest.mark.parametrize(
    ("pod", "known", "phase", "words"),
    [
        (a_pod(A), facts(sandboxes=()), "Pending", {"a": "ContainerCreating"}),
        (a_pod(A, init=(I1,)), facts(), "Pending", {"i1": "PodInitializing", "a": "PodInitializing"}),
        (a_pod(A, init=(I1,)), facts(running(I1)), "Pending", {"i1": "running", "a": "PodInitializing"}),
        (a_pod(A, init=(I1,)), facts(exited(I1)), "Pending", {"i1": "0", "a": "PodInitializing"}),
        (a_pod(A, init=(I1,)), facts(exited(I1), running(A)), "Running", {"i1": "0", "a": "running"}),
        (a_pod(A, init=(I1,), restart="Never"), facts(exited(I1, 3)), "Failed", {"i1": "3", "a": "PodInitializing"}),
        (a_pod(A, init=(I1,)), facts(exited(I1, 3)), "Pending", {"i1": "3", "a": "PodInitializing"}),
        (a_pod(A), facts(running(A)), "Running", {"a": "running"}),
        (a_pod(A, B), facts(running(A)), "Pending", {"a": "running", "b": "ContainerCreating"}),
        (a_pod(A, B), facts(running(A), exited(B, 1)), "Running", {"a": "running", "b": "1"}),
        (a_pod(A), facts(exited(A)), "Running", {"a": "0"}),
        (a_pod(A, restart="OnFailure"), facts(exited(A)), "Succeeded", {"a": "0"}),
        (a_pod(A, restart="OnFailure"), facts(exited(A, 1)), "Running", {"a": "1"}),
        (a_pod(A, restart="Never"), facts(exited(A)), "Succeeded", {"a": "0"}),
        (a_pod(A, B, restart="Never"), facts(exited(A), exited(B, 1)), "Failed", {"a": "0", "b": "1"}),
        (a_pod(A), facts(running(A, state=RunState.CREATED)), "Pending", {"a": ""}),
        (a_pod(A), facts(running(A, state=RunState.UNKNOWN)), "Pending", {"a": ""}),
    ],
)
def test_phase_sums_up_the_containers(pod: Pod, known: PodFacts, phase: str, words: dict[str, str]) -> None:
    """Each combination of states and restart policy has kubelet's phase."""
    status = status_of(pod, known)
    assert (status.phase, states(status)) == (phase, words)


@pytest.mark.parametrize(
    ("pod", "known", "phase"),
    [
        (a_pod(A, init=(I1,), restart="Never"), facts(exited(I1, 1)), "Failed"),
        (a_pod(A, init=(I1,), restart="OnFailure"), facts(exited(I1, 1)), "Pending"),
        (a_pod(A, init=(SIDE,)), facts(), "Pending"),
        (a_pod(A, init=(SIDE,)), facts(running(SIDE)), "Pending"),
        (a_pod(A, init=(SIDE,)), facts(running(SIDE), running(A)), "Running"),
        (a_pod(A, init=(SIDE,)), facts(running(SIDE, state=RunState.UNKNOWN), running(A)), "Pending"),
        (a_pod(A, init=(SIDE,)), facts(exited(SIDE), running(SIDE, 1, state=RunState.CREATED), running(A)), "Running"),
        (a_pod(A, init=(SIDE,), restart="Never"), facts(exited(SIDE, 1)), "Pending"),
        (a_pod(A, init=(SIDE,), restart="Never"), facts(exited(SIDE, 1), running(A)), "Running"),
        (a_pod(A, init=(SIDE,), restart="Never"), facts(running(SIDE), exited(A)), "Running"),
        (a_pod(A, init=(SIDE,), restart="Never"), facts(exited(SIDE, 137), exited(A)), "Succeeded"),
        (a_pod(A, init=(SIDE, I1)), facts(running(SIDE), running(I1)), "Pending"),
        (a_pod(A, init=(SIDE, I1), restart="Never"), facts(running(SIDE), exited(I1, 1)), "Pending"),
        (a_pod(A, init=(SIDE, I1), restart="Never"), facts(exited(SIDE), exited(I1, 1)), "Failed"),
    ],
)
def test_phase_of_a_pod_with_init_containers(pod: Pod, known: PodFacts, phase: str) -> None:
    """A sidecar fails no pod, and keeps one running as long as it runs."""
    assert status_of(pod, known).phase == phase


STARTED = ContainerStatus(name="side", started=True, state=ContainerState(running=ContainerStateRunning()))
WAITING = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))


@pytest.mark.parametrize(
    ("side", "phase"),
    [(STARTED, "Running"), (replace(STARTED, started=False), "Pending"), (replace(STARTED, name="other"), "Pending")],
)
def test_a_sidecar_that_has_not_started_keeps_its_pod_pending(side: ContainerStatus, phase: str) -> None:
    """As long as no regular container has started."""
    pod = a_pod(A, init=(SIDE,))
    waiting = ContainerStatus(name="a", state=WAITING)
    ended = ContainerStatus(name="a", state=ContainerState(terminated=ContainerStateTerminated(exit_code=1)))
    assert pod_phase(pod, PodStatus(init_container_statuses=(side,), container_statuses=(waiting,))) == "Pending"
    assert pod_phase(pod, PodStatus(init_container_statuses=(side,), container_statuses=(ended,))) == "Running"
    assert pod_phase(a_pod(init=(SIDE,)), PodStatus(init_container_statuses=(side,))) == "Pending"


def test_a_pod_whose_containers_are_not_known_is_pending() -> None:
    known = ContainerStatus(name="a", state=ContainerState(running=ContainerStateRunning()))
    assert pod_phase(a_pod(A), PodStatus()) == "Pending"
    assert pod_phase(a_pod(A, B), PodStatus(container_statuses=(known,))) == "Pending"
    assert pod_phase(a_pod(A, init=(I1,)), PodStatus(container_statuses=(known,))) == "Pending"


@pytest.mark.parametrize(
    ("reported", "node", "expected"),
    [
        ((), ("192.0.2.2",), ["192.0.2.2"]),
        ((), ("192.0.2.2", "2001:db8::2"), ["192.0.2.2", "2001:db8::2"]),
        (("192.0.2.9",), ("192.0.2.2", "2001:db8::2"), ["192.0.2.9", "2001:db8::2"]),
        (("2001:db8::9",), ("192.0.2.2", "2001:db8::2"), ["2001:db8::9"]),
        (("192.0.2.9", "2001:db8::9"), ("192.0.2.2", "2001:db8::2"), ["192.0.2.9", "2001:db8::9"]),
        ((), (), []),
    ],
)
def test_addresses_on_the_hosts_network_stay_and_a_second_version_is_added(
    reported: tuple[str, ...], node: tuple[str, ...], expected: list[str]
) -> None:
    pod = a_pod(A, status=PodStatus(pod_ips=tuple(PodIP(ip) for ip in reported)), host_network=True)
    status = pod_status(pod, facts(running(A)), NodeView(ips=node, runtime="containerd"), at(100))
    assert [each.ip for each in status.pod_ips] == expected
    assert status.pod_ip == next(iter(expected), "")


def test_two_generations_of_a_container_show_as_state_and_last_state() -> None:
    """The newest container is the state, the one before it the last state, its number the restart count."""
    status = status_of(a_pod(A), facts(exited(A, 1, 0), exited(A, 2, 1), running(A, 2)))
    (container,) = status.container_statuses
    assert container.state.running == ContainerStateRunning(started_at=format_time(at(3)))
    assert container.last_state.terminated is not None
    assert (container.last_state.terminated.exit_code, container.restart_count) == (2, 2)
    assert container.container_id == "containerd://a-2"


def test_crash_loop_is_a_waiting_state_with_the_end_as_last_state() -> None:
    """A container in back-off waits, and says for how long in a kubelet's words; its pod counts as running."""
    wait = ContainerWait(A, at(110), seconds(80))
    status = status_of(a_pod(A), facts(exited(A, 1)), waiting_reasons={"a": crash_loop(REF, wait)})
    (container,) = status.container_statuses
    assert container.state.waiting == ContainerStateWaiting(
        reason="CrashLoopBackOff",
        message="back-off 1m20s restarting failed container=a pod=bb1_default(cd5ab9a8-09a2-42ce-8217-e1bd8c6cb445)",
    )
    assert container.last_state.terminated is not None
    assert (container.last_state.terminated.exit_code, status.phase, container.ready) == (1, "Running", False)


@pytest.mark.parametrize(
    ("pod", "known", "expected"),
    [
        (a_pod(A), facts(), "ErrImagePull"),
        (a_pod(A), facts(exited(A, 1)), "ErrImagePull"),
        (a_pod(A), facts(running(A)), "running"),
        (a_pod(A, restart="Never"), facts(exited(A, 1)), "1"),
        (a_pod(A, restart="OnFailure"), facts(exited(A)), "0"),
    ],
)
def test_a_waiting_reason_shows_only_where_a_start_is_due(pod: Pod, known: PodFacts, expected: str) -> None:
    """A failed start is the container's state unless the container runs or has finished by its policy."""
    reasons = {"a": ContainerStateWaiting(reason="ErrImagePull", message="no such host")}
    assert states(status_of(pod, known, waiting_reasons=reasons)) == {"a": expected}


DELETED = {"deletion_timestamp": "2026-11-20T02:00:00Z"}


@pytest.mark.parametrize(
    ("pod", "known", "expected"),
    [
        (a_pod(A, init=(I1,)), facts(), "ErrImagePull"),
        (a_pod(A, init=(I1,)), facts(running(I1, state=RunState.CREATED)), "ErrImagePull"),
        (a_pod(A, init=(I1,)), facts(running(I1)), "running"),
        (a_pod(A, init=(I1,), restart="OnFailure"), facts(running(I1, state=RunState.UNKNOWN)), "ErrImagePull"),
        (a_pod(A, init=(I1,)), facts(exited(I1, 1)), "ErrImagePull"),
        (a_pod(A, init=(I1,)), facts(exited(I1)), "0"),
        (a_pod(A, init=(I1,), restart="Never"), facts(exited(I1, 1)), "1"),
        (a_pod(A, init=(I1,), meta=DELETED), facts(exited(I1, 1)), "1"),
        (a_pod(A, init=(I1,), meta=DELETED), facts(), "PodInitializing"),
        (a_pod(A, init=(SIDE,)), facts(running(SIDE)), "running"),
        (a_pod(A, init=(SIDE,), restart="Never"), facts(exited(SIDE)), "ErrImagePull"),
        (a_pod(A, init=(SIDE,), meta=DELETED), facts(exited(SIDE)), "0"),
    ],
)
def test_a_waiting_reason_of_an_init_container_shows_only_where_a_start_is_due(
    pod: Pod, known: PodFacts, expected: str
) -> None:
    """A sidecar is started again whatever its exit code, until its pod ends."""
    reasons = {name: ContainerStateWaiting(reason="ErrImagePull") for name in ("i1", "side")}
    shown = states(status_of(pod, known, waiting_reasons=reasons))
    assert (shown.get("i1") or shown.get("side")) == expected


def test_failed_init_container_in_back_off_waits() -> None:
    """A repeated init container shows its waiting reason; a successful one does not."""
    reasons = {name: ContainerStateWaiting(reason="CrashLoopBackOff") for name in ("i1", "i2")}
    status = status_of(a_pod(A, init=(I1, I2)), facts(exited(I1), exited(I2, 1)), waiting_reasons=reasons)
    assert states(status) == {"i1": "0", "i2": "CrashLoopBackOff", "a": "PodInitializing"}
    assert status.phase == "Pending"


def test_conditions_of_a_new_pod() -> None:
    """Nothing is ready and the message names what is missing."""
    status = status_of(a_pod(A, B, init=(I1,)), facts(sandboxes=()))
    assert conditions(status) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "False ContainersNotInitialized",
        "Ready": "False ContainersNotReady",
        "ContainersReady": "False ContainersNotReady",
        "PodScheduled": "True",
    }
    messages = {c.type: c.message for c in status.conditions}
    assert messages["Initialized"] == "containers with incomplete status: [i1]"
    assert messages["Ready"] == "containers with unready status: [a b]"


def test_conditions_keep_the_time_of_their_last_change() -> None:
    """A later status with the same truth keeps the old time, one with another truth has the new one."""
    first = status_of(a_pod(A), facts())
    later = pod_status(a_pod(A), facts(running(A)), NODE, at(200), old=first)
    times = {c.type: c.last_transition_time for c in later.conditions}
    assert times["PodScheduled"] == format_time(at(100))
    assert times["Ready"] == format_time(at(200))
    assert later.start_time == format_time(at(100))


def test_conditions_of_others_are_kept_in_front() -> None:
    """What another controller wrote stays untouched."""
    foreign = PodCondition(type="example.com/x", status="True", last_transition_time=Time("2026-01-01T00:00:00Z"))
    pod = a_pod(A, status=PodStatus(conditions=(foreign,)))
    assert status_of(pod, facts()).conditions[0] == foreign


def test_readiness_gate_holds_ready_back() -> None:
    """With all containers ready, a gate that nobody opened keeps the pod unready and is named."""
    pod = a_pod(A, readiness_gates=(PodReadinessGate(condition_type="example.com/x"),))
    status = status_of(pod, facts(running(A)))
    assert conditions(status)["ContainersReady"] == "True"
    ready = next(c for c in status.conditions if c.type == "Ready")
    assert ready.reason == "ReadinessGatesNotReady"
    assert ready.message == 'corresponding condition of pod readiness gate "example.com/x" does not exist.'


@pytest.mark.parametrize(
    ("container", "probes", "expected"),
    [
        (A, ProbeFacts(), (True, True)),
        (a_container("a", readiness_probe=Probe()), ProbeFacts(), (True, False)),
        (a_container("a", readiness_probe=Probe()), ProbeFacts(readiness={ContainerId("a-0"): True}), (True, True)),
        (a_container("a", startup_probe=Probe()), ProbeFacts(), (False, False)),
        (a_container("a", startup_probe=Probe()), ProbeFacts(startup={ContainerId("a-0"): True}), (True, True)),
    ],
)
def test_probes_decide_about_started_and_ready(
    container: Container, probes: ProbeFacts, expected: tuple[bool, bool]
) -> None:
    """A probe without a result counts as not passed; without a probe, running is enough."""
    (seen,) = status_of(a_pod(container), facts(running(container)), probes=probes).container_statuses
    assert (seen.started, seen.ready) == expected


def test_forgotten_container_counts_as_restarted() -> None:
    """A container that was reported running and that the runtime does not know any more ended in an unknown
    way.
    """
    old = status_of(a_pod(A), facts(running(A)))
    (container,) = status_of(a_pod(A), facts(), old=old).container_statuses
    assert container.last_state.terminated is not None
    assert (container.last_state.terminated.reason, container.last_state.terminated.exit_code) == (
        "ContainerStatusUnknown",
        137,
    )
    assert (container.restart_count, states(replace(old, container_statuses=(container,)))["a"]) == (
        1,
        "ContainerCreating",
    )


def test_a_container_of_a_pod_that_is_deleted_does_not_count_as_restarted() -> None:
    old = status_of(a_pod(A), facts(running(A, 2)))
    pod = a_pod(A, meta={"deletion_timestamp": Time("2026-11-20T01:55:00Z")})
    assert [each.restart_count for each in status_of(pod, facts(), old=old).container_statuses] == [2]


def test_end_that_was_reported_outlives_the_container() -> None:
    """After garbage collection the reported end still stands."""
    old = status_of(a_pod(A, restart="Never"), facts(exited(A, 7)))
    again = status_of(a_pod(A, restart="Never"), facts(sandboxes=()), old=old)
    assert (again.phase, states(again)) == ("Failed", {"a": "7"})


def test_final_phase_is_never_left() -> None:
    """A pod that was reported Succeeded does not come back."""
    old = PodStatus(phase="Succeeded")
    assert status_of(a_pod(A), facts(running(A)), old=old).phase == "Succeeded"


def test_ended_pod_has_an_end_for_every_container() -> None:
    """A deleted pod whose container never started is Failed, with an end that admits not to know."""
    pod = a_pod(A, B, meta={"deletion_timestamp": Time("2026-11-20T01:55:00Z")})
    status = status_of(pod, facts(exited(A), sandboxes=()), ended=True)
    assert (status.phase, states(status)) == ("Failed", {"a": "0", "b": "137"})


@pytest.mark.parametrize(
    ("init", "known", "words"),
    [
        ((I1, I2), [exited(I1, 137)], {"i1": "137", "i2": "PodInitializing", "a": "PodInitializing"}),
        ((I1, I2), [], {"i1": "137", "i2": "PodInitializing", "a": "PodInitializing"}),
        ((I1, I2), [exited(I2, 3)], {"i1": "137", "i2": "3", "a": "PodInitializing"}),
        ((I1, I2), [exited(I1), exited(I2)], {"i1": "0", "i2": "0", "a": "137"}),
        ((I1, I2), [exited(A, 1)], {"i1": "137", "i2": "PodInitializing", "a": "1"}),
        ((I1, SIDE), [exited(I1)], {"i1": "0", "side": "PodInitializing", "a": "PodInitializing"}),
        ((I1, SIDE), [exited(I1), exited(SIDE)], {"i1": "0", "side": "0", "a": "137"}),
    ],
)
def test_containers_that_the_initialization_has_not_reached_have_no_end(
    init: tuple[Container, ...], known: list[ContainerFacts], words: dict[str, str]
) -> None:
    """Nobody reads an exit code of a container that never ran, such as a Job's failure policy."""
    status = status_of(a_pod(A, init=init), facts(*known, sandboxes=()), ended=True)
    assert (status.phase, states(status)) == ("Failed", words)


def test_a_pod_that_ends_during_its_initialization_is_not_initialized() -> None:
    status = status_of(a_pod(A, init=(I1,)), facts(exited(I1, 137), sandboxes=()), ended=True)
    assert conditions(status)["Initialized"] == "False ContainersNotInitialized"


def test_addresses() -> None:
    """A pod has its sandbox's addresses and keeps them while it ends; on the host's network it has the
    node's.
    """
    dual = facts(running(A), sandboxes=(a_sandbox(ips=("10.0.0.1", "fd00::1")),))
    up = status_of(a_pod(A), dual)
    assert (up.pod_ip, [ip.ip for ip in up.pod_ips]) == ("10.0.0.1", ["10.0.0.1", "fd00::1"])
    down = status_of(a_pod(A), facts(exited(A), sandboxes=(a_sandbox(ready=False, ips=()),)), old=up)
    assert down.pod_ips == up.pod_ips
    assert status_of(a_pod(A, host_network=True), facts()).pod_ip == "192.0.2.2"
    assert status_of(a_pod(A, host_network=True), facts(), old=up).pod_ip == "10.0.0.1", "the node's may change"
    assert up.host_ip == "192.0.2.2"


@pytest.mark.parametrize(
    ("reported", "node", "told"),
    [
        (("fd00::1", "10.0.0.1"), "192.0.2.2", ["10.0.0.1", "fd00::1"]),
        (("10.0.0.1", "fd00::1"), "fd00::2", ["fd00::1", "10.0.0.1"]),
        (("10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"), "192.0.2.2", ["10.0.0.1", "fd00::1"]),
        (("fd00::1",), "192.0.2.2", ["fd00::1"]),
        (("10.0.0.1.", "fe80::1%eth0", "10.0.0.2"), "192.0.2.2", ["10.0.0.2"]),
        (("nothing",), "192.0.2.2", ["10.0.0.9"]),
    ],
)
def test_a_pod_has_one_address_of_each_ip_version(reported: tuple[str, ...], node: str, told: list[str]) -> None:
    """The node's version first, whatever a network plug-in reports: an API server refuses more. Without an address the
    reported ones stay.
    """
    old = PodStatus(pod_ips=(PodIP(ip="10.0.0.9"),))
    found = facts(running(A), sandboxes=(a_sandbox(ips=reported),))
    status = pod_status(a_pod(A), found, NodeView(ips=(node,), runtime="containerd"), at(100), old=old)
    assert (status.pod_ip, [each.ip for each in status.pod_ips]) == (told[0], told)


def test_containers_are_sorted_by_name_and_init_containers_by_turn() -> None:
    """The order of statuses does not depend on the runtime's answers."""
    status = status_of(a_pod(B, A, init=(I2, I1)), facts(running(A), running(B)))
    assert [c.name for c in status.container_statuses] == ["a", "b"]
    assert [c.name for c in status.init_container_statuses] == ["i2", "i1"]


@pytest.mark.parametrize(("handlers", "mode"), [({""}, "Enabled"), ({"other"}, "Disabled")])
def test_mounts_are_reported(handlers: set[str], mode: str) -> None:
    """Each mount shows, a read-only one with its recursive mode, which depends on the runtime."""
    mounts = (
        VolumeMount(name="v", mount_path="/v", read_only=True),
        VolumeMount(name="w", mount_path="/w"),
        VolumeMount(name="x", mount_path="/x", read_only=True, recursive_read_only="Enabled"),
        VolumeMount(name="y", mount_path="/y", read_only=True, recursive_read_only="IfPossible"),
    )
    node = replace(NODE, recursive_read_only=frozenset(handlers))
    (container,) = pod_status(a_pod(a_container("a", volume_mounts=mounts)), facts(), node, at(100)).container_statuses
    assert [(m.name, m.read_only, m.recursive_read_only) for m in container.volume_mounts] == [
        ("v", True, "Disabled"),
        ("w", False, None),
        ("x", True, mode),
        ("y", True, mode),
    ]


@pytest.mark.parametrize(("length", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (0, "0s")])
def test_durations_read_as_in_go(length: int, text: str) -> None:
    """The message of a back-off looks as people know it."""
    assert go_duration(seconds(length)) == text


def test_unknown_state_of_a_running_container_is_an_unknown_end() -> None:
    """When the runtime loses track of a container that was running, it ended with 137."""
    old = PodStatus(
        container_statuses=(
            ContainerStatus(name="a", state=ContainerState(running=ContainerStateRunning()), restart_count=4),
        )
    )
    (container,) = status_of(a_pod(A), facts(running(A, state=RunState.UNKNOWN)), old=old).container_statuses
    assert container.state.terminated == ContainerStateTerminated(
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
    )
    assert container.restart_count == 5


def test_a_pod_that_was_refused_began_when_it_was_refused_or_when_it_had_said_before() -> None:
    """A kubelet's rejectPod: nothing ever ran, and yet the status has a start."""
    refusal = KillOptions("NodeAffinity", "no such label", rejected=True)
    new, known = a_pod(A), a_pod(A)
    known = replace(
        known, status=PodStatus(phase="Pending", start_time=Time("2020-01-01T00:00:00Z"), qos_class="Burstable")
    )
    told = [status_of(pod, facts(sandboxes=()), kill=refusal, ended=True) for pod in (new, known)]
    assert [(status.phase, status.reason, status.qos_class) for status in told] == [
        ("Failed", "NodeAffinity", "BestEffort"),
        ("Failed", "NodeAffinity", "Burstable"),
    ]
    assert [status.start_time for status in told] == [format_time(at(100)), "2020-01-01T00:00:00Z"]
    for status in told:
        for ended in (False, True):  # after a restart of the node, which does not know why it was at its end
            assert status_of(a_pod(A, status=status), facts(sandboxes=()), ended=ended) == status


def test_a_status_has_the_qos_class_where_the_cloud_has_not() -> None:
    """And leaves the cloud's, which no node changes."""
    limits = ResourceRequirements(requests={"cpu": "1"})
    asking = a_container("a", resources=limits)
    assert status_of(a_pod(A), facts(running(A))).qos_class == "BestEffort"
    assert status_of(a_pod(asking), facts(running(asking))).qos_class == "Burstable"
    known = PodStatus(phase="Running", qos_class="Guaranteed")
    assert status_of(a_pod(A, status=known), facts(running(A))).qos_class == "Guaranteed"


@pytest.mark.parametrize(("before", "held"), [("Running", "Running"), ("Pending", "Pending"), ("", "Pending")])
def test_the_reason_of_a_kill_is_reported_with_the_end_of_the_pod(before: str, held: str) -> None:
    """The containers' ends would say Succeeded or Failed for nothing that anybody could look up."""
    evicted = KillOptions("Evicted", "the node was low on memory")
    pod = a_pod(A, restart="Never", status=PodStatus(phase=before))
    going = status_of(pod, facts(exited(A)), kill=evicted)
    assert (going.phase, going.reason, going.message) == (held, "", "")
    gone = status_of(pod, facts(exited(A)), kill=evicted, ended=True)
    assert (gone.phase, gone.reason, gone.message) == ("Failed", "Evicted", "the node was low on memory")


def test_reason_and_message_belong_to_a_phase() -> None:
    """They stay as long as it does, and go with it."""
    known = PodStatus(phase="Failed", reason="Evicted", message="low on memory")
    later = status_of(a_pod(A, status=known), facts(running(A)))
    assert (later.phase, later.reason, later.message) == ("Failed", "Evicted", "low on memory")
    waits = PodStatus(phase="Pending", reason="Unschedulable", message="no room")
    now = status_of(a_pod(A, status=waits), facts(running(A)))
    assert (now.phase, now.reason, now.message) == ("Running", "", "")
