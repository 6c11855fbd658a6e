"""edgecore and Docker Engine end at any time: containers are found as they are, nothing is lost, doubled or left."""

import signal
from pathlib import Path

import grpc
import pytest

from modules.runtimes.docker.labels import OWNER, owned_by
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode, RemoteDockerNode, node_directory
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, eventually
from tests.support.dockerd import PrivateDockerd, reason_missing

_LOOP = "exec sleep 1000"


def _is_ready(node: DockerNode) -> bool:
    """Whether the runtime says that it is ready."""
    conditions = node.cri.Status(cri.StatusRequest()).status.conditions
    return next(bool(each.status) for each in conditions if each.type == "RuntimeReady")


def test_killed_and_started_again(remote: RemoteDockerNode) -> None:
    """After SIGKILL everything is found again, with what happened meanwhile; logs go on where they ended."""
    pod = remote.pod()
    names = [cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), log_path=f"{name}.log") for name in "abc"]
    running = remote.shell(f"echo one; while [ ! -e /go ]; do sleep 0.01; done; echo two; {_LOOP}", names[0], pod)
    ending = remote.shell("echo hi; while [ ! -e /go ]; do sleep 0.01; done; echo bye; exit 9", names[1], pod)
    created = remote.create(["true"], names[2], pod)
    remote.logged(running, "one")
    remote.logged(ending, "hi")
    before = {container: remote.status(container) for container in (running, created)}
    pids = {container: remote.pid(container) for container in (running, ending)}
    remote.kill()
    for pid in pids.values():
        Path(f"/proc/{pid}/root/go").touch()
    docker = remote.dockerd.client
    eventually(lambda: docker.get(f"/containers/{ending}/json", dict, "look")["State"]["Running"], lambda it: not it)
    remote.serve()
    assert {container: remote.status(container) for container in before} == before
    assert remote.pid(running) == pids[running]
    remote.logged(running, "two")
    ended = remote.status(ending)
    assert (ended.state, ended.exit_code, ended.reason) == (cri.CONTAINER_EXITED, 9, "Error")
    assert [text for _, _, text in remote.log(ending)] == ["hi", "bye"]
    assert [text for _, _, text in remote.log(running)] == ["one", "two"]
    remote.start(created)
    assert remote.ended(created).exit_code == 0
    remote.stop(running, 0)
    assert remote.status(running).exit_code == 128 + signal.SIGKILL


def test_a_container_without_a_record_is_removed(node: DockerNode) -> None:
    """edgecore was killed between Docker's answer and its own record: the next start removes what has no record."""
    container = node.shell(_LOOP)
    body = {"Image": "busybox", "Labels": {OWNER: str(node.state)}, "HostConfig": {"NetworkMode": "none"}}
    docker = node.dockerd.client
    made = docker.post("/containers/create", dict, "make a container", body)
    assert made["Id"] in [each.id for each in node.in_docker()]
    node.restart()
    assert made["Id"] not in [each.id for each in node.in_docker()]
    assert node.states() == {container: cri.CONTAINER_RUNNING}


def test_somebody_else_ends_and_removes_containers(node: DockerNode) -> None:
    """`docker rm` of a container is an end with an unknown code; of the holder, a sandbox that is not ready."""
    pod = node.pod()
    container = node.shell(_LOOP, pod=pod)
    docker = node.dockerd.client
    events = node.cri.GetContainerEvents(cri.GetEventsRequest(), timeout=DEADLINE_SECONDS)
    events.initial_metadata()
    docker.call("DELETE", f"/containers/{container}", "remove", {"force": "1"})
    assert next(events).container_event_type == cri.CONTAINER_STOPPED_EVENT
    status = node.status(container)
    assert (status.state, status.exit_code != 0) == (cri.CONTAINER_EXITED, True)
    docker.call("POST", f"/containers/{pod}/kill", "kill")
    assert next(events).container_event_type == cri.CONTAINER_STOPPED_EVENT
    (found,) = node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items
    assert found.state == cri.SANDBOX_NOTREADY
    with pytest.raises(grpc.RpcError, match="is not ready"):
        node.create(["true"], pod=pod)


_STEPS = [
    "before modules.runtimes.docker.creation:ContainerMaker.create",
    "after modules.runtimes.docker.creation:ContainerMaker.create",
    "before modules.runtimes.engine.engine:publish",
    "after modules.runtimes.engine.engine:publish",
    "after modules.runtimes.docker.sandboxes:DockerSandboxes._attach",
    "before modules.runtimes.engine.containers:publish",
    "after modules.runtimes.engine.containers:publish",
    "before modules.runtimes.docker.processes:DockerProcesses.refresh",
    "after modules.runtimes.docker.processes:DockerProcesses.refresh",
    "before modules.runtimes.docker.driver:remove_container",
    "after modules.runtimes.docker.driver:remove_container",
    "before modules.runtimes.engine.containers:discard",
    "after modules.runtimes.engine.containers:discard",
    "before modules.runtimes.docker.sandboxes:remove_container",
    "after modules.runtimes.docker.sandboxes:remove_container",
    "before modules.runtimes.engine.engine:discard",
    "after modules.runtimes.engine.engine:discard",
]


@pytest.mark.slow
@pytest.mark.parametrize("step", _STEPS)
def test_killed_at_a_step(doomed: RemoteDockerNode, step: str) -> None:
    """Whatever was being done can be done again: the pod runs once, and nothing of it is left when it is removed."""
    doomed.serve_until(step)
    with pytest.raises(grpc.RpcError):
        _whole_life(doomed)
    doomed.kill()
    doomed.serve()
    for sandbox in doomed.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items:
        doomed.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))
    assert doomed.in_docker() == []
    _whole_life(doomed)
    assert doomed.in_docker() == []


def _whole_life(node: RemoteDockerNode) -> None:
    pod = node.pod("p")
    container = node.shell("echo up; exec sleep 1000", pod=pod)
    node.logged(container, "up")
    assert len(node.in_docker()) == 2
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))


@pytest.mark.slow
def test_docker_restarts(node: DockerNode) -> None:
    """While Docker is unreachable requests about containers are refused; when it is back, containers have their true
    states and logs continue.
    """
    container = node.shell(f"echo one; while [ ! -e /go ]; do sleep 0.01; done; echo two; {_LOOP}")
    ending = node.shell("while [ ! -e /go ]; do sleep 0.01; done; echo bye; exit 9")
    node.logged(container, "one")
    roots = [Path(f"/proc/{node.pid(each)}/root/go") for each in (container, ending)]
    node.dockerd.kill()
    eventually(lambda: _is_ready(node), lambda is_ready: not is_ready)
    for call in (node.states, lambda: node.status(container), lambda: node.stop(container, 0)):
        with pytest.raises(grpc.RpcError, match="Docker Engine at") as refusal:
            call()
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
    for root in roots:
        root.touch()
    node.dockerd.start()
    eventually(lambda: _is_ready(node))
    assert node.states()[container] == cri.CONTAINER_RUNNING
    node.logged(container, "two")
    assert [text for _, _, text in node.log(container)] == ["one", "two"]
    assert node.ended(ending).exit_code in (9, 255)  # Docker 20.10 may lose the code of an end that it has not seen


@pytest.mark.slow
def test_docker_restarts_and_ends_its_containers() -> None:
    """Without `live-restore` a stopped Docker ends all pods: they are found so, and new ones run."""
    if reason := reason_missing():
        pytest.skip(reason)
    with (
        PrivateDockerd(live_restore=False) as dockerd,
        node_directory(dockerd) as directory,
        DockerNode(directory, dockerd) as node,
    ):
        pod = node.pod()
        container = node.shell("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done", pod=pod)
        node.logged(container, "up")
        dockerd.terminate()
        eventually(lambda: _is_ready(node), lambda is_ready: not is_ready)
        dockerd.start()
        eventually(lambda: _is_ready(node))
        assert node.status(container).state == cri.CONTAINER_EXITED
        assert [text for *_, text in node.log(container)] == ["up", "bye"]
        (listed,) = node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items
        assert (listed.id, listed.state) == (pod, cri.SANDBOX_NOTREADY)
        node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
        assert node.execute(node.shell(_LOOP), "true").exit_code == 0


@pytest.mark.slow
def test_purge(node: DockerNode) -> None:
    """All containers with the label of this edgecore are removed, running or not."""
    node.shell(_LOOP)
    node.create(["true"])
    node.disconnect()
    node.runtime.stop()
    node.purge()
    assert node.dockerd.client.get("/containers/json", list, "list", owned_by(str(node.state))) == []
    assert not node.state.exists()
    node.runtime.start()
    node.connect()
