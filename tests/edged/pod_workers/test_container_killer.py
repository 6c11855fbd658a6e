"""Ending a pod's containers: all together, with their errors when all have ended. On both runtimes."""

import threading
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from msgspec.structs import replace

from beehive import Runtime
from edged.cri.errors import CriError, UnavailableError
from edged.pod_workers.container_killer import ContainerKiller, kill_containers, kill_pod, remove_pod, run_concurrently
from edged.pods.actions import ContainerKill
from edged.pods.facts import pod_facts
from edged.pods.model import ContainerFacts, ContainerId, PodFacts, PodRef, PodUid, RunState, SandboxFacts, SandboxId
from edged.pods.unhealthy import KillReason
from modules.apimachinery.types import ObjectMeta, Pod, PodSpec
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as pb
from tests.support.patience import PATIENCE

IMAGE = "busybox"
REF = PodRef(PodUid("u"), "default", "web")


def a_pod(runtime: FakeRuntime, containers: int) -> PodFacts:
    """A pod with so many running containers, and its facts."""
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="web", uid="u"))
    sandbox = runtime.run_pod_sandbox(config)
    facts = []
    for number in range(containers):
        made = pb.ContainerConfig(metadata=pb.ContainerMetadata(name=f"c{number}"), image=pb.ImageSpec(image=IMAGE))
        container = runtime.create_container(sandbox, made, config)
        runtime.start_container(container)
        facts.append(ContainerFacts(ContainerId(container), SandboxId(sandbox), f"c{number}", 0, RunState.RUNNING, 1))  # type: ignore[arg-type]
    return pod_facts(REF, [SandboxFacts(SandboxId(sandbox), 0, ready=True, created_at=1)], facts)  # type: ignore[arg-type]


def test_calls_are_made_beside_each_other(actors: Runtime) -> None:
    """Each waits for all others to have begun."""
    begun = [actors.future() for _ in range(3)]

    def call(number: int) -> None:
        begun[number].set(None)
        for other in begun:
            other.get(timeout=PATIENCE)

    run_concurrently(actors, [lambda number=number: call(number) for number in range(3)])  # type: ignore[misc]
    assert all(future.settled for future in begun)


def test_the_first_error_is_raised_when_all_have_ended(actors: Runtime) -> None:
    ended = []

    def fail(number: int) -> None:
        ended.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        run_concurrently(actors, [lambda number=number: fail(number) for number in range(3)])  # type: ignore[misc]
    assert sorted(ended) == [0, 1, 2]


def test_one_call_is_made_by_the_caller_itself_and_none_by_nobody(actors: Runtime) -> None:
    where = []
    run_concurrently(actors, [lambda: where.append(threading.get_ident())])
    run_concurrently(actors, [])
    assert where == [threading.get_ident()]


class TogetherRuntime(FakeRuntime):
    """A runtime where none of five containers ends before all are being stopped."""

    def __init__(self, actors: Runtime) -> None:
        super().__init__(actors, [IMAGE])
        self._begun = [actors.future() for _ in range(5)]
        self._next = iter(self._begun)

    def stop_container(self, container_id: Any, grace_seconds: int) -> None:
        """See `ContainerRuntime`."""
        next(self._next).set(None)
        for each in self._begun:
            each.get(timeout=PATIENCE)
        super().stop_container(container_id, grace_seconds)


def test_the_containers_of_a_pod_end_beside_each_other(actors: Runtime) -> None:
    runtime = TogetherRuntime(actors)
    facts = a_pod(runtime, 5)
    kill_pod(actors, runtime, facts, 30)
    assert runtime.running() == []
    assert [s.state for s in runtime.sandboxes.values()] == [pb.SANDBOX_NOTREADY]


def test_a_sandbox_stays_while_a_container_could_not_be_ended(actors: Runtime) -> None:
    runtime = FakeRuntime(actors, [IMAGE])
    facts = a_pod(runtime, 2)
    runtime.fail("stop_container", UnavailableError("StopContainer", "", grpc.StatusCode.UNAVAILABLE, "gone"))
    with pytest.raises(CriError):
        kill_pod(actors, runtime, facts, 1)
    assert [s.state for s in runtime.sandboxes.values()] == [pb.SANDBOX_READY]


def test_an_ended_pod_is_removed_with_everything(actors: Runtime) -> None:
    runtime = FakeRuntime(actors, [IMAGE])
    facts = a_pod(runtime, 2)
    kill_pod(actors, runtime, facts, 1)
    remove_pod(runtime, facts)
    remove_pod(runtime, facts)
    assert not runtime.sandboxes
    assert not runtime.containers


def test_a_sandbox_is_stopped_before_it_is_removed() -> None:
    """Also one that is not ready: its network may be there still, and a runtime may refuse to remove it."""
    sandbox = SandboxFacts(SandboxId("s"), 0, ready=False, created_at=1)  # type: ignore[arg-type]
    runtime = Mock()
    remove_pod(runtime, pod_facts(REF, [sandbox], []))
    assert [name for name, _, _ in runtime.mock_calls] == ["stop_pod_sandbox", "remove_pod_sandbox"]


@pytest.mark.parametrize(("state", "stops"), [("RUNNING", 1), ("UNKNOWN", 1), ("CREATED", 0), ("EXITED", 0)])
def test_what_may_run_is_stopped(actors: Runtime, state: str, stops: int) -> None:
    """Also a container in a state unknown to the runtime: its successor must not run beside it."""
    runtime = FakeRuntime(actors, [IMAGE])
    containers = [replace(each, state=RunState[state]) for each in a_pod(runtime, 1).containers]
    kill_containers(actors, runtime, containers, 2)
    assert runtime.calls["stop_container"] == stops


class Killer:
    """A ContainerKiller with a runtime that notes its calls."""

    def __init__(self, actors: Runtime) -> None:
        self.runtime, self.events = Mock(), Mock()
        lifecycle = Mock()
        self.killer = ContainerKiller(actors, self.runtime, lifecycle, self.events)

    def calls(self) -> list[tuple[object, ...]]:
        """The runtime's calls, in order."""
        return [(name, *args) for name, args, _ in self.runtime.mock_calls]


FACTS = PodFacts(
    REF, (SandboxFacts(SandboxId("s"), 0, ready=True, created_at=1),),  # type: ignore[arg-type]
    (ContainerFacts(ContainerId("c"), SandboxId("s"), "app", 0, RunState.RUNNING, 1),),  # type: ignore[arg-type]
)  # fmt: skip


def test_an_orphan_gets_two_seconds(actors: Runtime) -> None:
    """As a kubelet gives it: nobody knows its grace period."""
    killer = Killer(actors)
    killer.killer.kill_orphan(FACTS)
    assert killer.calls() == [("stop_container", "c", 2), ("stop_pod_sandbox", "s")]


def test_containers_are_removed_before_their_sandbox(actors: Runtime) -> None:
    killer = Killer(actors)
    killer.killer.remove_pod(FACTS)
    assert killer.calls() == [("remove_container", "c"), ("stop_pod_sandbox", "s"), ("remove_pod_sandbox", "s")]


def test_a_failed_hook_is_an_event_before_the_kill(actors: Runtime) -> None:
    killer = Killer(actors)
    pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u"), spec=PodSpec())
    ended = replace(FACTS.containers[0], state=RunState.EXITED)
    for reason, names in (
        (KillReason.START_HOOK, ["post_start_failed", "killing"]), (KillReason.NOT_IN_POD, ["killing"]),
    ):  # fmt: skip
        killer.events.reset_mock()
        killer.killer.kill_containers(pod, (ContainerKill(ended, reason, restarts=True),))
        assert [name for name, _, _ in killer.events.mock_calls] == names
