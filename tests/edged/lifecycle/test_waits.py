"""The parts of hooks by themselves: what counts meanwhile, how long a container gets, waits that are ended."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from beehive import Runtime
from edged.lifecycle.waits import WaitEndedError, Waits
from edged.pods.model import ContainerId, HookFacts, PodFacts, PodUid, RunState
from edged.pods.pod_status.status import NodeView, pod_status
from edged.status.generator import settled_facts
from modules.apimachinery.types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from modules.apimachinery.types.probes import ExecAction, Lifecycle, LifecycleHandler
from tests.edged.pods.builders import a_container, a_pod, at, exited, facts, running

UID = PodUid("uid")
NO_HOOKS = HookFacts()
HOOKED = a_container("hooked", lifecycle=Lifecycle(post_start=LifecycleHandler(exec=ExecAction(("x",)))))
PLAIN = a_container("plain")


def reported(identity: str) -> PodStatus:
    state = ContainerState(running=ContainerStateRunning())
    return PodStatus(
        container_statuses=(ContainerStatus(name="hooked", container_id=f"fake://{identity}", state=state),)
    )


def running_ids(known: PodFacts) -> list[str]:
    return [c.id for c in known.containers if c.running]


def test_a_container_without_a_hook_or_without_a_process_keeps_its_state() -> None:
    known = facts(running(PLAIN), exited(HOOKED, 1))
    assert settled_facts(a_pod(HOOKED, PLAIN), known, NO_HOOKS, working=True) == known
    assert settled_facts(a_pod(PLAIN), known, NO_HOOKS, working=True) is known


def test_a_container_that_was_reported_as_running_stays_so_despite_its_hook() -> None:
    """Its successor does not, yet."""
    pod = a_pod(HOOKED, status=reported("hooked-0"))
    assert running_ids(settled_facts(pod, facts(running(HOOKED, 0)), NO_HOOKS, working=True)) == ["hooked-0"]
    later = settled_facts(pod, facts(exited(HOOKED, 0), running(HOOKED, 1)), NO_HOOKS, working=True)
    assert [(c.id, c.state) for c in later.containers] == [
        ("hooked-1", RunState.CREATED),
        ("hooked-0", RunState.EXITED),
    ]


@pytest.mark.parametrize(
    "hooks", [HookFacts(frozenset({ContainerId("hooked-0")})), HookFacts(failed={ContainerId("hooked-0"): "x"})]
)
def test_no_worker_need_be_at_the_pod_while_a_hook_runs_or_has_failed(hooks: HookFacts) -> None:
    pod, known = a_pod(HOOKED, PLAIN), facts(running(HOOKED), running(PLAIN))
    assert running_ids(settled_facts(pod, known, hooks, working=False)) == ["plain-0"]
    assert settled_facts(pod, known, NO_HOOKS, working=False) is known


def test_meanwhile_it_is_reported_as_being_made() -> None:
    """And never as lost, also when nothing is left of its predecessor; it keeps the number of its restarts."""
    pod = a_pod(HOOKED, status=reported("hooked-0"))
    known = settled_facts(pod, facts(running(HOOKED, 1)), NO_HOOKS, working=True)
    [status] = pod_status(pod, known, NodeView((), "fake"), at(5)).container_statuses
    assert status.state.waiting == ContainerStateWaiting(reason="ContainerCreating")
    assert status.restart_count == 1
    assert status.last_state.terminated is None


def test_a_sidecar_with_a_hook_is_reported_as_initializing() -> None:
    sidecar = replace(HOOKED, restart_policy="Always")
    (settled,) = settled_facts(a_pod(init=(sidecar,)), facts(running(sidecar)), NO_HOOKS, working=True).containers
    assert (settled.state, settled.reason) == (RunState.CREATED, "PodInitializing")


def test_a_pause_lasts_as_long_as_it_should(actors: Runtime) -> None:
    begin = actors.clock.monotonic()
    Waits(actors).pause(0.05, UID)
    assert actors.clock.monotonic() - begin >= 0.05


def test_a_call_is_waited_for_and_its_error_comes_back(actors: Runtime) -> None:
    waits, called = Waits(actors), []

    def fail() -> None:
        raise ZeroDivisionError

    waits.call(lambda: called.append(1), UID)
    assert called == [1]
    with pytest.raises(ZeroDivisionError):
        waits.call(fail, UID)


@pytest.mark.parametrize("end", [lambda waits: waits.terminate_pod(UID), lambda waits: waits.close()])
def test_a_wait_ends_with_its_pod_and_with_all(actors: Runtime, end: Callable[[Waits], None]) -> None:
    """Whatever it waits for goes on by itself."""
    waits, forever = Waits(actors), actors.future()
    actors.clock.after(0.05, lambda: end(waits))
    with pytest.raises(WaitEndedError):
        waits.call(forever.get, UID)
    with pytest.raises(WaitEndedError):
        waits.pause(1000, UID)
    forever.set(None)


def test_another_pods_end_ends_nothing(actors: Runtime) -> None:
    waits = Waits(actors)
    waits.terminate_pod(PodUid("other"))
    waits.pause(0.01, UID)
    waits.terminate_pod(UID)
    waits.forget_pod(UID)
    waits.pause(0.01, UID)
    waits.terminate_pod(UID)
    waits.pause(0.01)
