"""Ephemeral containers (`kubectl debug`): started once, reported, in nobody's way."""

import pytest

from edged.errors import ConfigError
from edged.pods.actions import compute_pod_actions
from edged.pods.backoff import BackOffs
from edged.pods.config.container_config import ContainerContext, container_config
from edged.pods.config.resources import HostResources
from edged.pods.ephemeral import target_of
from edged.pods.model import ContainerId, PodFacts, RunState
from edged.pods.pod_status.status import NodeView, pod_status
from modules.apimachinery.types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    EphemeralContainer,
    Pod,
    PodStatus,
    decode,
)
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import a_container, a_pod, a_sandbox, at, exited, facts, running

A, INIT = a_container("a"), a_container("init")
DEBUG = EphemeralContainer(name="debug", image="busybox:1.36", target_container_name="a")
POD = a_pod(A, init=(INIT,), ephemeral_containers=(DEBUG,))


def reported(state: ContainerState) -> Pod:
    status = PodStatus(ephemeral_container_statuses=(ContainerStatus(name="debug", state=state),))
    return a_pod(A, ephemeral_containers=(DEBUG,), status=status)


@pytest.mark.parametrize(
    ("pod", "known", "started"),
    [
        pytest.param(POD, facts(running(A)), ["debug"], id="it is new"),
        pytest.param(POD, facts(running(INIT)), ["debug"], id="also while the pod is initialized"),
        pytest.param(POD, facts(running(A), running(DEBUG)), [], id="it runs"),
        pytest.param(POD, facts(running(A), exited(DEBUG, 1)), [], id="it has ended"),
        pytest.param(POD, facts(running(A), running(DEBUG, state=RunState.CREATED)), ["debug"], id="it was only made"),
        pytest.param(POD, facts(running(A), exited(DEBUG, sandbox_id="old")), [], id="it ended in a sandbox before"),
        pytest.param(
            reported(ContainerState(running=ContainerStateRunning())), facts(running(A)), [], id="it was lost"
        ),
        pytest.param(
            reported(ContainerState(terminated=ContainerStateTerminated())), facts(running(A)), [], id="it was reported"
        ),
        pytest.param(
            reported(ContainerState(waiting=ContainerStateWaiting())), facts(running(A)), ["debug"], id="it only waited"
        ),
        pytest.param(POD, facts(sandboxes=(a_sandbox(ready=False),)), ["init"], id="not before the pod's first round"),
    ],
)
def test_an_ephemeral_container_is_started_once(pod: Pod, known: PodFacts, started: list[str]) -> None:
    actions = compute_pod_actions(pod, known, at(1000), BackOffs())
    assert [start.container.name for start in actions.starts] == started
    assert actions.kill == ()


def test_an_ephemeral_container_does_not_keep_a_pod_from_ending() -> None:
    pod = a_pod(A, ephemeral_containers=(DEBUG,), restart="Never")
    assert compute_pod_actions(pod, facts(exited(A), running(DEBUG)), at(1000), BackOffs()).kill_pod


@pytest.mark.parametrize(
    ("known", "state"),
    [
        (facts(running(A)), "waiting"),
        (facts(running(A), running(DEBUG)), "running"),
        (facts(running(A), exited(DEBUG, 3)), "terminated"),
    ],
)
def test_its_status_is_reported_and_changes_nothing_of_the_pods(known: PodFacts, state: str) -> None:
    status = pod_status(POD, known, NodeView((), "fake"), at(5))
    [debug] = status.ephemeral_container_statuses
    assert getattr(debug.state, state) is not None
    assert (debug.ready, debug.started) == (False, None)
    assert (
        status.container_statuses
        == pod_status(a_pod(A, init=(INIT,)), known, NodeView((), "fake"), at(5)).container_statuses
    )


def test_a_lost_ephemeral_container_has_ended() -> None:
    pod = reported(ContainerState(running=ContainerStateRunning()))
    [debug] = pod_status(pod, facts(running(A)), NodeView((), "fake"), at(5)).ephemeral_container_statuses
    assert debug.state.terminated is not None
    assert debug.state.terminated.reason == "ContainerStatusUnknown"


def test_its_target_is_the_container_that_runs_now() -> None:
    assert target_of(DEBUG, facts(exited(A, 1), running(A, 1))) == "a-1"
    assert target_of(EphemeralContainer(name="debug"), facts()) is None
    with pytest.raises(ConfigError, match="a"):
        target_of(DEBUG, facts(exited(A, 1)))


@pytest.mark.parametrize(
    ("shared", "mode", "target"), [(None, cri.TARGET, "a-0"), (True, cri.POD, ""), (False, cri.TARGET, "a-0")]
)
def test_an_ephemeral_container_sees_its_targets_processes(*, shared: bool | None, mode: int, target: str) -> None:
    """Unless all containers of the pod see each other's anyway."""
    pod = a_pod(A, ephemeral_containers=(DEBUG,), share_process_namespace=shared)
    context = ContainerContext("image", 0, {}, (), HostResources(1 << 30), target=ContainerId("a-0"))
    options = container_config(pod, DEBUG, context).linux.security_context.namespace_options
    assert (options.pid, options.target_id) == (mode, target)


def test_the_field_is_read_as_kubernetes_writes_it() -> None:
    raw = b'{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox:1.36","targetContainerName":"a"}]}}'
    assert decode(Pod, raw).spec.ephemeral_containers == (DEBUG,)
