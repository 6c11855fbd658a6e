"""The gRPC server around it: events, concurrent calls, refusals, and its own start and stop."""

import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from beehive.clock import RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.engine.events import STREAM_LIMIT
from modules.runtimes.process.driver import ProcessSettings
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, LocalNode, eventually


def _stream(node: LocalNode) -> Iterator[cri.ContainerEventResponse]:
    """An open stream of the events from now on."""
    events: Any = node.cri.GetContainerEvents(cri.GetEventsRequest(), timeout=DEADLINE_SECONDS)
    events.initial_metadata()
    stream: Iterator[cri.ContainerEventResponse] = events
    return stream


def test_events_of_a_life(node: LocalNode) -> None:
    """Each step of a pod's life is one event, in order, with the states after it."""
    events = _stream(node)
    pod = node.pod()
    container = node.shell("exit 3", pod=pod)
    node.ended(container)
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    told = [next(events) for _ in range(8)]
    created, started = cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_STARTED_EVENT
    stopped, deleted = cri.CONTAINER_STOPPED_EVENT, cri.CONTAINER_DELETED_EVENT
    assert [(event.container_id, event.container_event_type) for event in told] == [
        (pod, created),
        (pod, started),
        (container, created),
        (container, started),
        (container, stopped),
        (pod, stopped),
        (container, deleted),
        (pod, deleted),
    ]
    end = told[4]
    assert [(status.id, status.exit_code) for status in end.containers_statuses] == [(container, 3)]
    assert (end.pod_sandbox_status.id, end.pod_sandbox_status.metadata.namespace) == (pod, "default")


def test_no_more_streams_than_threads_allow(node: LocalNode) -> None:
    """Event streams are limited; the next is refused, and accepted once another has ended."""
    open_streams: list[Any] = [_stream(node) for _ in range(STREAM_LIMIT)]
    with pytest.raises(grpc.RpcError) as refusal:
        next(_stream(node))
    assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    open_streams.pop().cancel()

    def accepted() -> bool:
        stream: Any = _stream(node)
        pod = node.pod()
        try:
            return bool(next(stream).container_id == pod)
        except grpc.RpcError:
            return False

    eventually(accepted)


def test_slow_stops_hold_nobody_up(node: LocalNode) -> None:
    """While many containers take their grace period, others are listed and started. Then they are killed."""
    stubborn = "trap '' TERM; echo up; while :; do read -r x <fifo; done"
    containers = [node.shell(f"mkfifo fifo; {stubborn}") for _ in range(10)]
    for container in containers:
        node.logged(container, "up")
    stops = [
        node.cri.StopContainer.future(cri.StopContainerRequest(container_id=container, timeout=3600))
        for container in containers
    ]
    assert node.run("echo hello") == "hello\n"
    assert not any(stop.done() for stop in stops)
    for container in containers:
        node.stop(container, 0)
    assert all(stop.result() is not None for stop in stops)
    assert {node.states()[container] for container in containers} == {cri.CONTAINER_EXITED}


def test_two_starts_at_once(node: LocalNode) -> None:
    """Of several simultaneous starts of one container exactly one succeeds, and one process runs."""
    container = node.create(["sh", "-c", "echo run; exec sleep 1000"])
    request = cri.StartContainerRequest(container_id=container)
    calls = [node.cri.StartContainer.future(request) for _ in range(5)]
    outcomes = [call.code() for call in calls]
    assert sorted(outcomes, key=str).count(grpc.StatusCode.OK) == 1
    assert outcomes.count(grpc.StatusCode.FAILED_PRECONDITION) == 4
    node.logged(container, "run")
    node.stop(container, 0)
    assert node.log(container) == [("stdout", "F", "run")]


def test_pods_in_parallel(node: LocalNode) -> None:
    """Many pods made by several workers in parallel all run."""
    made: list[str] = []

    def work(worker: int) -> None:
        made.extend(node.shell("exec sleep 1000", pod=node.pod(f"pod-{worker}-{n}")) for n in range(5))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert node.states() == dict.fromkeys(made, cri.CONTAINER_RUNNING)
    assert len(made) == 20


@pytest.mark.parametrize("method", ["CheckpointContainer", "StreamPodSandboxMetrics"])
def test_calls_that_are_not_offered(node: LocalNode, method: str) -> None:
    """Methods that processes cannot have are refused with a sentence of why."""
    request = getattr(cri, f"{method}Request")()
    with pytest.raises(grpc.RpcError, match=f"does not offer {method}: ") as refusal:
        answer = getattr(node.cri, method)(request)
        next(answer)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_refusals_keep_their_status(node: LocalNode) -> None:
    """Each kind of refusal is the gRPC status that clients of other runtimes know."""
    pod = node.pod("web")
    cases: list[tuple[grpc.StatusCode, str, Any]] = [
        (grpc.StatusCode.NOT_FOUND, "ContainerStatus", cri.ContainerStatusRequest(container_id="x")),
        (grpc.StatusCode.NOT_FOUND, "PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id="x")),
        (grpc.StatusCode.NOT_FOUND, "CreateContainer", _create("x", ["true"])),
        (grpc.StatusCode.INVALID_ARGUMENT, "CreateContainer", _create(pod, [])),
        (grpc.StatusCode.INVALID_ARGUMENT, "RunPodSandbox", cri.RunPodSandboxRequest()),
    ]
    for code, method, request in cases:
        with pytest.raises(grpc.RpcError) as refusal:
            getattr(node.cri, method)(request)
        assert refusal.value.code() is code, method
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    with pytest.raises(grpc.RpcError) as refusal:
        node.create(["true"], pod=pod)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    for method, request in {
        "StopContainer": cri.StopContainerRequest(container_id="x"),
        "RemoveContainer": cri.RemoveContainerRequest(container_id="x"),
        "StopPodSandbox": cri.StopPodSandboxRequest(pod_sandbox_id="x"),
        "RemovePodSandbox": cri.RemovePodSandboxRequest(pod_sandbox_id="x"),
    }.items():
        getattr(node.cri, method)(request)


def _create(pod: str, command: list[str]) -> cri.CreateContainerRequest:
    return cri.CreateContainerRequest(pod_sandbox_id=pod, config=cri.ContainerConfig(command=command))


def test_it_reports_its_name_and_version(node: LocalNode) -> None:
    """Its name says that containers are processes; it is ready, and so is the network they share."""
    version = node.cri.Version(cri.VersionRequest())
    assert (version.runtime_name, version.runtime_api_version) == ("edgecore-processes", "v1")
    conditions = node.cri.Status(cri.StatusRequest()).status.conditions
    assert {condition.type: condition.status for condition in conditions} == {
        "RuntimeReady": True,
        "NetworkReady": True,
    }


def test_only_the_owner_may_ask(node: LocalNode) -> None:
    """Other users of the machine can neither open the socket nor read the containers' requests."""
    assert stat.S_IMODE(node.socket.stat().st_mode) == 0o600
    container = node.shell("exec sleep 1000", cri.ContainerConfig(envs=[cri.KeyValue(key="PASSWORD", value=b"x")]))
    files = [path for path in (node.state / "containers" / container).iterdir() if path.is_file()]
    assert len(files) >= 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


def test_stop_does_not_wait_for_slow_calls(node: LocalNode) -> None:
    """The runtime stops in a moment although a call waits for a grace period of an hour; the container goes on."""
    container = node.shell("trap '' TERM; echo up; while :; do sleep 0.01; done")
    node.logged(container, "up")
    call = node.cri.StopContainer.future(cri.StopContainerRequest(container_id=container, timeout=3600))
    eventually(call.running)
    node.restart()
    assert call.exception(timeout=DEADLINE_SECONDS) is not None
    assert node.states()[container] == cri.CONTAINER_RUNNING


def test_a_second_runtime_is_refused(node: LocalNode) -> None:
    """Two runtimes never share a state directory; the refused one leaves the first untouched."""
    second = CriServer(node.state, node.directory / "second.sock", node.clock, ProcessSettings())
    with pytest.raises(StateDirectoryError, match="another edgecore process uses it"):
        second.start()
    second.stop()
    assert node.run("echo hello") == "hello\n"


def test_a_socket_path_that_is_too_long(directory: Path) -> None:
    """A socket's path that the kernel would cut is refused with the limit."""
    clock = RealClock()
    runtime = CriServer(directory / "state", directory / ("x" * 120), clock, ProcessSettings())
    with pytest.raises(StateDirectoryError, match="107 bytes"):
        runtime.start()
    clock.close()
