"""critest: Container, OOM, Idempotence."""

from pathlib import Path

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused
from tests.modules.runtimes.process.node import eventually


def test_create(client: Client) -> None:
    """critest: Container: runtime should support creating container."""
    container = client.create(*LOOP)
    assert client.listed()[container].state == cri.CONTAINER_CREATED
    status = client.status(container)
    assert status.created_at > 0
    assert status.started_at == 0


def test_container_attributes(client: Client) -> None:
    """critest: Container: runtime should return the attributes of a container that brings its image's command."""
    container = client.start(image="web", pod=client.pod(network=True))
    for seen in (client.status(container), client.listed()[container]):
        assert seen.metadata.name.startswith("main-")
        assert seen.metadata.attempt == 3
        assert len(seen.labels) == 1
        assert seen.annotations == {"kept": "too"}
    client.sees(container, "httpd")
    assert client.said(container, "cat /proc/1/cmdline").split("\0")[0] == "httpd"


def test_start(client: Client) -> None:
    """critest: Container: runtime should support starting container."""
    status = client.status(client.start(*LOOP))
    assert status.state == cri.CONTAINER_RUNNING
    assert status.started_at >= status.created_at > 0


def test_a_program_that_is_not_there(client: Client) -> None:
    """The start fails, and the container has ended with 128 and the reason StartError, as containerd has it."""
    container = client.create("/bin/nosuch")
    refused(client.runtime.StartContainer, cri.StartContainerRequest(container_id=container))
    status = client.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 128, "StartError")


def test_stop(client: Client) -> None:
    """critest: Container: runtime should support stopping container."""
    container = client.start(*LOOP)
    client.stop(container)
    assert client.status(container).state == cri.CONTAINER_EXITED


@pytest.mark.parametrize(
    ("on_signal", "grace_seconds", "code"), [("exit 5", 30, 5), ("", 1, 137)], ids=["ends", "stays"]
)
def test_stop_with_a_grace_period(client: Client, on_signal: str, grace_seconds: int, code: int) -> None:
    """A container may end by the stop signal; one that ignores it is killed after the grace period."""
    container = client.start("sh", "-c", f"trap '{on_signal}' TERM; echo up; while :; do sleep 0.01; done")
    eventually(lambda: client.log(container, "stdout") == "up\n")
    client.stop(container, grace_seconds)
    assert client.status(container).exit_code == code


@pytest.mark.parametrize("state", ["created", "running", "stopped"])
def test_remove(client: Client, state: str) -> None:
    """critest: Container: runtime should support removing created, running and stopped containers."""
    container = client.create(*LOOP) if state == "created" else client.start(*LOOP)
    if state == "stopped":
        client.stop(container)
    client.remove(container)
    assert container not in client.listed()


def test_exec_sync(client: Client) -> None:
    """critest: Container: runtime should support execSync."""
    answer = client.execute(client.start(*LOOP), "echo", "-n", "hello")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"hello", b"", 0)


def test_exec_sync_failures(client: Client) -> None:
    """A command's own code and errors are in the answer; a command that is not there is an error of the call or 127.

    It has the variables of its container.
    """
    container = client.start(*LOOP, envs=[cri.KeyValue(key="NAME", value=b"value")])
    answer = client.execute(container, "sh", "-c", "echo $NAME; echo oops >&2; exit 7")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"value\n", b"oops\n", 7)
    assert refused(client.execute, container, "nosuch").code() is not grpc.StatusCode.OK


def test_exec_sync_timeout(client: Client) -> None:
    """critest: Container: runtime should support execSync with timeout; nothing of the command is left."""
    container = client.start(*LOOP)
    assert refused(lambda: client.execute(container, "sleep", "4321", timeout=1)).code() in (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNKNOWN,
    )
    eventually(lambda: "4321" not in client.said(container, "cat /proc/[0-9]*/cmdline"))


def test_exec_sync_of_what_does_not_run(client: Client) -> None:
    """A command in a container that is created, or has ended, is refused."""
    container = client.create(*LOOP)
    refused(client.execute, container, "true")
    client.stop(client.start(*LOOP))
    refused(client.execute, container, "true")


def _stats(client: Client, **wanted: object) -> dict[str, cri.ContainerStats]:
    asked = cri.ContainerStatsFilter(**wanted) if wanted else None  # type: ignore[arg-type]
    answer = client.runtime.ListContainerStats(cri.ListContainerStatsRequest(filter=asked))
    return {each.attributes.id: each for each in answer.stats}


def test_stats_of_one(client: Client) -> None:
    """critest: Container: runtime should support getting stats for container."""
    container = client.start(*LOOP)
    stats = client.runtime.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats
    assert stats.attributes.id == container
    assert stats.attributes.metadata.name.startswith("main-")
    assert stats.cpu.timestamp > 0
    assert stats.memory.timestamp > 0


def test_stats_of_started(client: Client) -> None:
    """critest: Container: runtime should support listing stats for started containers, by id."""
    container = client.start(*LOOP)
    assert list(_stats(client, id=container)) == [container]


def test_stats_without_filter(client: Client) -> None:
    """critest: Container: runtime should support listing stats for started containers when filter is nil."""
    container = client.start(*LOOP)
    assert container in _stats(client)


def test_stats_of_three(client: Client) -> None:
    """critest: Container: runtime should support listing stats for three created containers; of a pod its own."""
    pod = client.pod()
    containers = [client.start(*LOOP, pod=pod) for _ in range(3)]
    assert set(_stats(client, pod_sandbox_id=pod)) == set(containers)


def test_stats_by_label(client: Client) -> None:
    """critest: Container: runtime should support listing stats for containers filtered by labels."""
    container = client.start(*LOOP)
    client.start(*LOOP)
    assert list(_stats(client, label_selector=dict(client.status(container).labels))) == [container]


def test_stats_of_a_pod(client: Client) -> None:
    """PodSandboxStats: usage of the pod and each of its containers."""
    pod = client.pod()
    containers = {client.start(*LOOP, pod=pod) for _ in range(2)}
    stats = client.runtime.PodSandboxStats(cri.PodSandboxStatsRequest(pod_sandbox_id=pod)).stats
    assert stats.attributes.id == pod
    assert {each.attributes.id for each in stats.linux.containers} == containers
    assert stats.linux.cpu.timestamp > 0


@pytest.mark.parametrize("is_link", [False, True], ids=["directory", "link"])
def test_volume(client: Client, tmp_path: Path, is_link: bool) -> None:
    """critest: Container: runtime should support starting container with volume, also when host path is a symlink."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_text("of the machine")
    path = volume
    if is_link:
        path = tmp_path / "link"
        path.symlink_to(volume)
    mount = cri.Mount(host_path=str(path), container_path="/mnt/volume")
    container = client.start(*LOOP, mounts=[mount])
    assert client.said(container, "cat /mnt/volume/file") == "of the machine"
    assert [each.container_path for each in client.status(container).mounts] == ["/mnt/volume"]


def test_log(client: Client) -> None:
    """critest: Container: runtime should support starting container with log; each line has time, stream and tag.

    The status says how and when it ended: of a container that ends at once, containerd has the end before the start.
    """
    ended = client.run("echo hello World; echo error >&2; printf 'no end'; exit 3")
    assert (ended.status.exit_code, ended.status.reason) == (3, "Error")
    assert 0 < ended.status.created_at <= min(ended.status.started_at, ended.status.finished_at)
    assert client.run("true").status.reason == "Completed"
    assert (ended.stdout, ended.stderr) == ("hello World\nno end", "error\n")
    first = Path(ended.status.log_path).read_text().split(" ")
    assert "T" in first[0]
    assert first[1] in ("stdout", "stderr")
    assert first[2] == "F"


def test_a_process_with_a_name_of_any_bytes(client: Client) -> None:
    """A container's first process names itself so: there is still all to be known of it, and it can be stopped."""
    container = client.start("sh", "-c", r"printf '\377' >/proc/$$/comm; echo named; while :; do sleep 1; done")
    eventually(lambda: client.log(container, "stdout") == "named\n")
    asked = cri.ContainerStatusRequest(container_id=container, verbose=True)
    assert client.runtime.ContainerStatus(asked).status.state == cri.CONTAINER_RUNNING
    assert client.runtime.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats.cpu.timestamp
    assert client.execute(container, "true").exit_code == 0
    client.stop(container)
    assert client.ended(container).status.exit_code == 137


def test_reopen_log(client: Client) -> None:
    """critest: Container: runtime should support reopening container log; the old file grows no more."""
    container = client.start("sh", "-c", "while :; do echo line; sleep 0.02; done")
    log = Path(client.status(container).log_path)
    eventually(lambda: log.stat().st_size > 0)
    old = log.rename(log.with_name("old"))
    client.runtime.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=container))
    assert log.exists()
    eventually(lambda: log.stat().st_size > 0)
    size = old.stat().st_size
    grown = log.stat().st_size
    eventually(lambda: log.stat().st_size > grown)
    assert old.stat().st_size == size


def test_reopen_log_of_what_does_not_run(client: Client) -> None:
    """The log of a container that has ended is not reopened: nobody would write to it."""
    container = client.start("true")
    client.ended(container)
    refused(client.runtime.ReopenContainerLog, cri.ReopenContainerLogRequest(container_id=container))


def test_out_of_memory(client: Client) -> None:
    """critest: OOM: the container that takes more than its limit is killed, with 137 and the reason OOMKilled.

    Without a limit the program ends by itself.
    """
    limits = cri.LinuxContainerResources(memory_limit_in_bytes=15 << 20, memory_swap_limit_in_bytes=15 << 20)
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=20M", "count=50"]
    ended = client.ended(client.start(*command, linux={"resources": limits}))
    assert (ended.status.exit_code, ended.status.reason) == (137, "OOMKilled")


def test_limits_change_in_place(client: Client) -> None:
    """UpdateContainerResources: a running container has its new limits immediately, and its status says them."""
    container = client.start(*LOOP, linux={"resources": cri.LinuxContainerResources(memory_limit_in_bytes=64 << 20)})
    wanted = cri.LinuxContainerResources(memory_limit_in_bytes=96 << 20, memory_swap_limit_in_bytes=96 << 20)
    client.runtime.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=container, linux=wanted))
    assert client.status(container).resources.linux.memory_limit_in_bytes == 96 << 20


def test_limits_change_before_the_start(client: Client) -> None:
    """UpdateContainerResources: a created container starts with its new limits."""
    container = client.create(
        *LOOP, linux={"resources": cri.LinuxContainerResources(memory_limit_in_bytes=64 << 20, cpu_shares=512)}
    )
    wanted = cri.LinuxContainerResources(memory_limit_in_bytes=96 << 20, memory_swap_limit_in_bytes=96 << 20)
    client.runtime.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=container, linux=wanted))
    client.runtime.StartContainer(cri.StartContainerRequest(container_id=container))
    found = client.status(container).resources.linux
    assert (found.memory_limit_in_bytes, found.cpu_shares) == (96 << 20, 512)


def test_wrong_limits_before_the_start(client: Client) -> None:
    """UpdateContainerResources refuses them immediately."""
    request = cri.UpdateContainerResourcesRequest(container_id=client.create(*LOOP))
    request.linux.cpuset_cpus = "all"
    refused(client.runtime.UpdateContainerResources, request)


_NOBODY = "f" * 64


@pytest.mark.parametrize("call", ["StopPodSandbox", "RemovePodSandbox"])
def test_pods_twice(client: Client, call: str) -> None:
    """critest: Idempotence: stopping and removing PodSandboxes that are gone, or are not there, is no error."""
    pod = client.pod()
    client.stop_pod(pod)
    for each in (pod, pod, _NOBODY):
        getattr(client.runtime, call)(getattr(cri, f"{call}Request")(pod_sandbox_id=each))


def test_stop_container_twice(client: Client) -> None:
    """critest: Idempotence: stopping a container that has ended is no error."""
    container = client.start(*LOOP)
    for _ in range(2):
        client.stop(container)


def test_stop_unknown_container(client: Client) -> None:
    """critest: Idempotence: stopping a container that is not there is no error."""
    client.stop(_NOBODY)


def test_remove_container_twice(client: Client) -> None:
    """critest: Idempotence: removing a container that is gone, or is not there, is no error."""
    container = client.create(*LOOP)
    for each in (container, container, _NOBODY):
        client.remove(each)


def test_remove_image_twice(client: Client) -> None:
    """critest: Idempotence: removing an image that is not there is no error."""
    for _ in range(2):
        client.remove_image(client.images.name("twice"))
