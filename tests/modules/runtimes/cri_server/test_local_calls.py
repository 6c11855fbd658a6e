"""Calls of clients in the runtime's own process: what they answer, and how they fail, is as through the socket."""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.cri import CriError
from edged.cri.client import CriClient
from edged.cri.errors import (
    AlreadyExistsError,
    ConnectionClosedError,
    ExhaustedError,
    NotFoundError,
    UnimplementedError,
)
from modules.runtimes.cri_server.local_calls import REQUEST_LIMIT, local_calls
from modules.runtimes.cri_server.methods import CriMethods
from protos.cri.v1 import api_pb2 as cri
from tests.end_to_end.processes import wait_until
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, LocalNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    """A node whose runtime is in this process."""
    with LocalNode(tmp_path) as started:
        yield started


@pytest.fixture
def near(node: LocalNode) -> Iterator[CriClient]:
    """A client that makes its calls without the socket."""
    made = CriClient(node.runtime.endpoint, request_timeout=DEADLINE_SECONDS, local=node.runtime.local_calls)
    yield made
    made.close()


def _sandbox() -> cri.PodSandboxConfig:
    return cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", uid="1", namespace="default"))


def _container() -> cri.ContainerConfig:
    image = cri.ImageSpec(image="busybox")
    return cri.ContainerConfig(metadata=cri.ContainerMetadata(name="main"), image=image, command=["sleep", "1000"])


def test_changes_without_the_socket_are_seen_through_it(node: LocalNode, near: CriClient) -> None:
    """A pod's whole life by local calls; a client on the socket gets the same messages at each step."""
    config, asked = _sandbox(), _container()
    sandbox = near.run_pod_sandbox(config)
    container = near.create_container(sandbox, asked, config)
    config.metadata.name = asked.metadata.name = "changed after the call"
    near.start_container(container)
    far = node.cri
    status = far.ContainerStatus(cri.ContainerStatusRequest(container_id=container))
    assert status.status.state == cri.CONTAINER_RUNNING
    assert status == near.container_status(container)
    assert list(far.ListContainers(cri.ListContainersRequest()).containers) == list(near.list_containers())
    assert list(far.ListPodSandbox(cri.ListPodSandboxRequest()).items) == list(near.list_pod_sandboxes())
    assert near.pod_sandbox_status(sandbox).status.metadata.name == "web"
    assert status.status.metadata.name == "main"
    near.remove_container(container)
    near.remove_pod_sandbox(sandbox)
    assert not far.ListPodSandbox(cri.ListPodSandboxRequest()).items


def test_everything_that_edged_asks_for_is_answered_without_the_socket(node: LocalNode, tmp_path: Path) -> None:
    """The socket of this client does not exist, so a call that needs it fails."""
    client = CriClient(f"unix://{tmp_path}/none.sock", request_timeout=DEADLINE_SECONDS, local=node.runtime.local_calls)
    image = cri.ImageSpec(image="busybox")
    sandbox = client.run_pod_sandbox(_sandbox())
    container = client.create_container(sandbox, _container(), _sandbox())
    client.start_container(container)
    assert client.version().runtime_name == "edgecore-processes"
    assert client.status().status.conditions
    assert client.exec_sync(container, ["echo", "hello"], 60).stdout == b"hello\n"
    assert [each.attributes.id for each in client.list_container_stats()] == [container]
    with pytest.raises(UnimplementedError):
        client.list_metric_descriptors()
    assert client.pull_image(image)
    assert client.image_status(image) is not None
    assert client.image_fs_info()
    client.list_images()
    client.remove_image(image)
    client.reopen_container_log(container)
    client.stop_container(container, 0)
    client.stop_pod_sandbox(sandbox)
    client.remove_pod_sandbox(sandbox)
    client.close()


def test_a_command_ends_with_its_client(node: LocalNode, near: CriClient, tmp_path: Path) -> None:
    """Its process too, as when a client of the socket goes."""
    sandbox = near.run_pod_sandbox(_sandbox())
    container = near.create_container(sandbox, _container(), _sandbox())
    near.start_container(container)
    written = tmp_path / "pid"
    errors: list[CriError] = []

    def execute() -> None:
        try:
            near.exec_sync(
                container, ["sh", "-c", f"echo $$ > {written}.new; mv {written}.new {written}; sleep 1000"], 0
            )
        except CriError as error:
            errors.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    wait_until(written.exists, "the command's number")
    near.close()
    thread.join(DEADLINE_SECONDS)
    assert [type(each) for each in errors] == [ConnectionClosedError]
    wait_until(lambda: not Path(f"/proc/{int(written.read_text())}").exists(), "the end of the command")


def test_failures_come_from_the_socket(node: LocalNode, near: CriClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Class, code and text of an error are the same on both ways, whatever the runtime raises."""
    far = CriClient(node.runtime.endpoint, request_timeout=DEADLINE_SECONDS)
    near.run_pod_sandbox(_sandbox())
    for client in (near, far):
        with pytest.raises(AlreadyExistsError, match="has this name and attempt"):
            client.run_pod_sandbox(_sandbox())
        with pytest.raises(NotFoundError, match='cannot find container "none"'):
            client.container_status("none")  # type: ignore[arg-type]
    far.close()
    with pytest.raises(ExhaustedError, match="bytes"):
        near.run_pod_sandbox(cri.PodSandboxConfig(annotations={"large": "x" * REQUEST_LIMIT}))
    near.close()
    with pytest.raises(ConnectionClosedError):
        near.list_containers()


@pytest.mark.parametrize(
    ("raised", "code"), [(OSError(28, "the disk is full"), "INTERNAL"), (KeyError("x"), "UNKNOWN")]
)
def test_unexpected_errors_have_a_status(node: LocalNode, raised: Exception, code: str) -> None:
    """An error that no method expects is logged and has gRPC's status, so that edged's workers survive it."""

    class Broken(CriMethods):
        def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
            raise raised

    calls = local_calls(Broken(node.runtime._engine), node.runtime._threads)  # type: ignore[arg-type]
    client = CriClient(node.runtime.endpoint, request_timeout=DEADLINE_SECONDS, local=calls)
    with pytest.raises(CriError) as failed:
        client.list_containers()
    client.close()
    assert failed.value.code.name == code


def test_events_come_without_the_socket_until_the_client_closes(node: LocalNode, near: CriClient) -> None:
    """Those after `opened`, in their order; closing the client ends the stream, and the runtime keeps no reader."""
    opened, seen = threading.Event(), queue.SimpleQueue[cri.ContainerEventResponse]()
    errors: list[CriError] = []

    def read() -> None:
        try:
            near.container_events(opened.set, seen.put)
        except CriError as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert opened.wait(DEADLINE_SECONDS)
    sandbox = near.run_pod_sandbox(_sandbox())
    events = [seen.get(timeout=DEADLINE_SECONDS) for _ in range(2)]
    assert [each.container_event_type for each in events] == [cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_STARTED_EVENT]
    assert {each.pod_sandbox_status.id for each in events} == {sandbox}
    assert near.pod_sandbox_status(sandbox).status == events[1].pod_sandbox_status
    near.close()
    thread.join(DEADLINE_SECONDS)
    assert [type(each) for each in errors] == [ConnectionClosedError]
    assert not node.runtime._engine.events.has_readers  # type: ignore[union-attr]
