"""The life of a pod on Docker Engine over the CRI socket, with a real dockerd."""

import grpc
import pytest

from modules.runtimes.docker.labels import OWNER
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode


def test_it_reports_its_name_and_version(node: DockerNode) -> None:
    """Version has the name of this runtime; without a CNI configuration the network is not ready."""
    version = node.cri.Version(cri.VersionRequest())
    assert (version.runtime_name, version.runtime_api_version) == ("edgecore-docker", "v1")
    answer = node.cri.Status(cri.StatusRequest(verbose=True))
    assert {each.type: each.status for each in answer.status.conditions} == {
        "RuntimeReady": True,
        "NetworkReady": False,
    }
    assert answer.info["isolation"] == "containers"


def test_the_life_of_a_pod(node: DockerNode) -> None:
    """A container runs, its output is in the log in CRI's form, it is listed, stopped and removed with its pod."""
    pod = node.pod()
    container = node.shell("echo out; echo err >&2; trap 'exit 5' TERM; while :; do sleep 0.01; done", pod=pod)
    node.logged(container, "out")
    node.logged(container, "err")
    assert sorted(node.log(container)) == [("stderr", "F", "err"), ("stdout", "F", "out")]
    assert node.states() == {container: cri.CONTAINER_RUNNING}
    listed = node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items
    assert [(each.id, each.state, each.labels["app"]) for each in listed] == [(pod, cri.SANDBOX_READY, "pod-1")]
    node.stop(container, 30)
    status = node.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 5, "Error")
    assert 0 < status.created_at <= status.started_at <= status.finished_at
    node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    found = node.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod)).status
    assert found.state == cri.SANDBOX_NOTREADY
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    assert node.states() == {}
    assert node.in_docker() == []


def test_a_program_that_is_not_there(node: DockerNode) -> None:
    """The start fails with Docker's words, and the container has ended with 128."""
    container = node.create(["/bin/nosuch"])
    with pytest.raises(grpc.RpcError, match="nosuch") as refusal:
        node.start(container)
    assert refusal.value.code() is grpc.StatusCode.UNKNOWN
    status = node.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 128, "StartError")
    node.restart()
    assert (node.status(container).exit_code, node.status(container).reason) == (128, "StartError")


def test_what_a_command_leaves_behind_does_not_hold_it_up(node: DockerNode) -> None:
    container = node.shell("exec sleep 1000")
    answer = node.execute(container, "sh", "-c", "sleep 1000 & echo done", timeout=300)
    assert (answer.stdout, answer.exit_code) == (b"done\n", 0)


def test_containers_of_others_are_not_touched(node: DockerNode) -> None:
    """A container of another owner is not listed and survives a start of edgecore, and its image is pinned; our images
    may be removed.
    """
    body = {"Image": "busybox", "Cmd": ["true"], "Labels": {OWNER: "/another"}, "HostConfig": {"NetworkMode": "none"}}
    docker = node.dockerd.client
    made = docker.post("/containers/create", dict, "make a container", body, {"name": "theirs"})
    try:
        node.restart()
        assert node.states() == {}
        images = node.images.ListImages(cri.ListImagesRequest()).images
        assert {each.pinned for each in images if "docker.io/library/busybox:latest" in each.repo_tags} == {True}
        assert [each.id for each in node.in_docker()] == [made["Id"]]
        docker.call("DELETE", "/images/edgecore%2Fpause:1", "remove our image")
        node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=node.pod()))
        assert [each.id for each in node.in_docker()] == [made["Id"]]
    finally:
        docker.call("DELETE", "/containers/theirs", "remove a container")
