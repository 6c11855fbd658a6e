"""Concurrent callers, new clients, and a runtime that dies: edged's workers, restarts and updates."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from edged.cri import ContainerId, UnavailableError
from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import Can, Pods, RuntimeUnderTest, eventually, shell

WORKERS = 8


def test_eight_workers_live_through_pods_at_once_on_one_client(pods: Pods, client: CriClient) -> None:
    """Each sees its own exit code and output, and no pod is left."""

    def live(number: int) -> tuple[int, bytes]:
        pod = pods.sandbox()
        script = f"trap 'exit {number}' TERM; echo ready; while :; do sleep 0.05; done"
        container = pods.start(pod, *shell(script))
        said = client.exec_sync(container, ["echo", str(number)], 60).stdout
        eventually(lambda: pod.log().exists() and "ready" in pod.log().read_text())
        client.stop_container(container, 200)
        status = pods.ended(container)
        client.stop_pod_sandbox(pod.id)
        client.remove_pod_sandbox(pod.id)
        return status.exit_code, said

    with ThreadPoolExecutor(WORKERS) as workers:
        outcomes = list(workers.map(live, range(1, WORKERS + 1)))
    assert outcomes == [(number, f"{number}\n".encode()) for number in range(1, WORKERS + 1)]
    assert client.list_pod_sandboxes(pb.PodSandboxFilter(label_selector=pods.labels)) == []


def test_lists_are_whole_while_pods_come_and_go(pods: Pods, client: CriClient) -> None:
    """A pod that was there before and after is in every list between."""
    lasting = pods.sandbox()

    def come_and_go(_: int) -> None:
        pod = pods.sandbox()
        client.stop_pod_sandbox(pod.id)
        client.remove_pod_sandbox(pod.id)

    def look(_: int) -> bool:
        return lasting.id in {sandbox.id for sandbox in client.list_pod_sandboxes()}

    with ThreadPoolExecutor(WORKERS) as workers:
        changes = [workers.submit(come_and_go, number) for number in range(6)]
        assert all(workers.map(look, range(200)))
        for change in changes:
            change.result()


def test_a_new_client_sees_what_another_made(cri_runtime: RuntimeUnderTest, pods: Pods, client: CriClient) -> None:
    """As after a restart of edged: the same ids, and the containers never noticed."""
    pods.client = CriClient(cri_runtime.endpoint)
    container = pods.start(pods.sandbox(), "sleep", "1000")
    started_at = pods.client.container_status(container).status.started_at
    pods.client.close()
    pods.client = client
    status = client.container_status(container).status
    assert (status.state, status.started_at) == (pb.CONTAINER_RUNNING, started_at)
    assert client.exec_sync(container, ["true"], 60).exit_code == 0


@pytest.mark.needs(Can.RESTART)
def test_a_killed_runtime_is_found_again_with_the_same_containers(
    cri_runtime: RuntimeUnderTest, pods: Pods, client: CriClient
) -> None:
    """A container that ran on still runs, one that ended has its exit code, and ids stay the same."""
    pod = pods.sandbox()
    lasting = pods.start(pod, "sleep", "1000", name="lasting")
    ending = pods.start(pod, *shell("sleep 0.2; exit 6"), name="ending")
    before = client.container_status(lasting).status
    cri_runtime.restart()
    after = eventually(lambda: _status(client, lasting))
    assert after is not None
    assert (after.state, after.started_at) == (pb.CONTAINER_RUNNING, before.started_at)
    assert pods.ended(ending).exit_code == 6
    listed = client.list_containers(pb.ContainerFilter(label_selector=pods.labels))
    assert {container.id for container in listed} == {lasting, ending}


def _status(client: CriClient, container: ContainerId) -> pb.ContainerStatus | None:
    try:
        return client.container_status(container).status
    except UnavailableError:
        return None
