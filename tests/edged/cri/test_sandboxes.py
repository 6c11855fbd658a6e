"""Life of a pod's sandbox, on every runtime."""

import ipaddress

import pytest

from edged.cri import NotFoundError, SandboxId
from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import Can, Pods, eventually, shell

UNKNOWN = SandboxId("0" * 64)


def test_a_runtime_reports_its_name_and_readiness(client: CriClient) -> None:
    version = client.version()
    assert version.runtime_name
    assert version.runtime_version
    conditions = {condition.type: condition.status for condition in client.status().status.conditions}
    assert conditions == {"RuntimeReady": True, "NetworkReady": True}


def test_a_sandbox_keeps_its_configuration(pods: Pods, client: CriClient) -> None:
    """Metadata, labels and annotations come back in status and list: edged finds its pods again by them."""
    pod = pods.sandbox(pods.config(attempt=3))
    status = client.pod_sandbox_status(pod.id).status
    listed = next(iter(client.list_pod_sandboxes(pb.PodSandboxFilter(id=pod.id))))
    for seen in (status, listed):
        assert seen.id == pod.id
        assert seen.metadata == pod.config.metadata
        assert dict(seen.labels) == dict(pod.config.labels)
        assert dict(seen.annotations) == dict(pod.config.annotations)
        assert seen.created_at > 1_600_000_000 * 10**9


def test_sandboxes_are_listed_by_id_state_and_label(pods: Pods, client: CriClient) -> None:
    running, stopped = pods.sandbox(), pods.sandbox()
    client.stop_pod_sandbox(stopped.id)

    def ids(**conditions: object) -> set[str]:
        only_ours = pb.PodSandboxFilter(label_selector=pods.labels)
        only_ours.MergeFrom(pb.PodSandboxFilter(**conditions))  # type: ignore[arg-type]
        return {sandbox.id for sandbox in client.list_pod_sandboxes(only_ours)}

    assert ids() == {running.id, stopped.id}
    assert ids(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY)) == {running.id}
    assert ids(state=pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)) == {stopped.id}
    assert ids(id=stopped.id) == {stopped.id}
    assert ids(label_selector={"test": "another"}) == set()
    assert {running.id, stopped.id} <= {sandbox.id for sandbox in client.list_pod_sandboxes()}


def test_the_status_of_an_unknown_sandbox_is_not_found(client: CriClient) -> None:
    with pytest.raises(NotFoundError, match=UNKNOWN):
        client.pod_sandbox_status(UNKNOWN)


@pytest.mark.needs(Can.POD_NETWORK)
def test_each_pod_has_an_address_that_others_reach_until_it_is_stopped(pods: Pods, client: CriClient) -> None:
    server = pods.sandbox(pods.config(host_network=False))
    visitor = pods.sandbox(pods.config(host_network=False))
    addresses = [client.pod_sandbox_status(pod.id).status.network.ip for pod in (server, visitor)]
    assert len({ipaddress.ip_address(address) for address in addresses}) == 2

    pods.start(server, *shell("mkdir /www; echo hello >/www/index.html; exec httpd -f -p 8080 -h /www"))
    container = pods.start(visitor, "sleep", "1000")
    fetch = ["wget", "-q", "-O", "-", f"http://{addresses[0]}:8080/"]
    answer = eventually(lambda: client.exec_sync(container, fetch, 60), lambda result: result.exit_code == 0)
    assert answer.stdout == b"hello\n"

    client.stop_pod_sandbox(server.id)
    assert client.exec_sync(container, ["ping", "-c", "1", "-W", "1", addresses[0]], 60).exit_code != 0
