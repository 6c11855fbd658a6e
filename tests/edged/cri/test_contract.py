"""What edged needs of a runtime, over its own client. Its double is held to it as well: one that is kinder than
containerd hides bugs, a stricter one invents them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beehive import Threads
from edged.cri import AlreadyExistsError, ContainerId, CriError, NotFoundError, SandboxId, Streams, UnimplementedError
from edged.cri.client import CriClient
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import ConnectionClosedError
from edged.gc.images import names_in_use, sandbox_images, unused, updated_records
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as pb
from tests.cri_contract.images import ContractImages
from tests.cri_contract.kinds import KINDS
from tests.edged.cri.event_listener import EventListener
from tests.edged.cri.harness import Pods, RuntimeUnderTest
from tests.modules.runtimes.oci.node import control_groups
from tests.support.images import BUSYBOX_IMAGE
from tests.support.patience import PATIENCE

FOREVER = ("sleep", "1000")
UNKNOWN = ContainerId("0" * 64)


_RUNTIMES = [
    "double",
    "processes",
    "oci",
    pytest.param("containerd", marks=[pytest.mark.containerd, pytest.mark.slow]),
    pytest.param("docker", marks=pytest.mark.slow),
]
"""What is held to containerd is edged's client, and the double: `make slow`, and `make quick` when these change."""


@pytest.fixture(scope="module", params=_RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Iterator[RuntimeUnderTest]:
    """The double, and each real runtime in turn."""
    if request.param == "double":
        yield RuntimeUnderTest("double", "", BUSYBOX_IMAGE, "")
        return
    with KINDS[request.param]() as kind, ContractImages() as images:
        endpoint, image = f"unix://{kind.socket}", images.name("busybox")
        made = CriClient(endpoint, request_timeout=PATIENCE)
        made.pull_image(pb.ImageSpec(image=image))
        made.close()
        yield RuntimeUnderTest(kind.name, endpoint, image, kind.cgroup_parent)
        parent = kind.cgroup_parent.strip("/")
        for group in sorted(control_groups(parent), reverse=True) if parent else ():
            if group.name != parent:  # of a pod: edged's duty, not the runtime's
                group.rmdir()


@pytest.fixture
def client(runtime: RuntimeUnderTest) -> Iterator[ContainerRuntime]:
    """A client of it."""
    actors = Threads()
    made: ContainerRuntime = FakeRuntime(actors, [BUSYBOX_IMAGE])
    if runtime.endpoint:
        made = CriClient(runtime.endpoint, request_timeout=PATIENCE)
    yield made
    made.close()
    actors.close()


@pytest.fixture
def pods(
    runtime: RuntimeUnderTest, client: ContainerRuntime, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Pods]:
    """Makes pods for one test and removes them after it."""
    name = f"contract-{abs(hash(request.node.originalname)) % 10**8}"
    made = Pods(runtime, client, tmp_path / "logs", name)
    yield made
    made.remove_all()


def test_a_sandbox_is_ready_then_not_ready_then_gone(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    status = client.pod_sandbox_status(pod.id).status
    assert (status.state, status.metadata) == (pb.SANDBOX_READY, pod.config.metadata)
    assert dict(status.labels) == dict(pod.config.labels)
    assert status.linux.namespaces.options.network == pb.NODE
    client.stop_pod_sandbox(pod.id)
    assert client.pod_sandbox_status(pod.id).status.state == pb.SANDBOX_NOTREADY
    client.remove_pod_sandbox(pod.id)
    with pytest.raises(NotFoundError):
        client.pod_sandbox_status(pod.id)
    assert client.list_pod_sandboxes(pb.PodSandboxFilter(id=pod.id)) == []


def test_stopping_and_removing_missing_containers_succeeds(client: ContainerRuntime) -> None:
    client.stop_pod_sandbox(SandboxId(UNKNOWN))
    client.remove_pod_sandbox(SandboxId(UNKNOWN))
    client.stop_container(UNKNOWN, 0)
    client.remove_container(UNKNOWN)


def test_asking_for_or_starting_missing_containers_is_not_found(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    for call in (client.container_status, client.start_container):
        with pytest.raises(NotFoundError):
            call(UNKNOWN)
    with pytest.raises(CriError):
        client.create_container(SandboxId(UNKNOWN), pods.container_config(FOREVER), pod.config)


def test_the_name_of_a_sandbox_is_taken_once_and_free_again_with_another_attempt(pods: Pods) -> None:
    """Name, namespace, uid and attempt together are unique: a crash between call and answer makes no second pod."""
    pods.sandbox(pods.config(name="taken"))
    with pytest.raises(AlreadyExistsError):
        pods.sandbox(pods.config(name="taken"))
    pods.sandbox(pods.config(name="taken", attempt=1))


def test_the_name_of_a_sandbox_that_was_removed_is_free(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox(pods.config(name="again"))
    client.stop_pod_sandbox(pod.id)
    client.remove_pod_sandbox(pod.id)
    pods.sandbox(pods.config(name="again"))


def test_a_container_is_created_then_runs_then_has_exited_then_is_gone(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    container = pods.create(pod, pods.container_config(FOREVER))
    assert pods.state(container) == pb.CONTAINER_CREATED
    client.start_container(container)
    assert pods.state(container) == pb.CONTAINER_RUNNING
    client.stop_container(container, 1)
    status = client.container_status(container).status
    assert status.state == pb.CONTAINER_EXITED
    assert 0 < status.created_at <= status.started_at <= status.finished_at
    client.remove_container(container)
    with pytest.raises(NotFoundError):
        client.container_status(container)


def test_a_container_keeps_its_configuration(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    config = pods.container_config(FOREVER, attempt=2)
    container = pods.create(pod, config)
    client.start_container(container)
    listed = next(iter(client.list_containers(pb.ContainerFilter(id=container))))
    status = client.container_status(container).status
    for seen in (listed, status):
        assert seen.id == container
        assert seen.metadata == config.metadata
        assert dict(seen.labels) == dict(config.labels)
        assert dict(seen.annotations) == dict(config.annotations)
        assert seen.image.image
        assert seen.image_ref
    assert listed.pod_sandbox_id == pod.id
    assert status.log_path == str(pod.log())
    (stats,) = client.list_container_stats(pb.ContainerStatsFilter(id=container))
    assert (stats.attributes.id, stats.attributes.metadata) == (container, config.metadata)


def test_the_name_of_a_container_is_taken_in_its_pod(pods: Pods) -> None:
    pod = pods.sandbox()
    pods.create(pod, pods.container_config(FOREVER))
    with pytest.raises(AlreadyExistsError):
        pods.create(pod, pods.container_config(FOREVER))
    pods.create(pod, pods.container_config(FOREVER, attempt=1))
    pods.create(pods.sandbox(), pods.container_config(FOREVER))


def test_a_container_that_runs_or_has_run_is_not_started_again(pods: Pods, client: ContainerRuntime) -> None:
    container = pods.start(pods.sandbox(), *FOREVER)
    with pytest.raises(CriError):
        client.start_container(container)
    client.stop_container(container, 0)
    with pytest.raises(CriError):
        client.start_container(container)


def test_a_container_that_does_not_run_executes_nothing_and_has_no_log_to_reopen(
    pods: Pods, client: ContainerRuntime
) -> None:
    container = pods.create(pods.sandbox(), pods.container_config(FOREVER))
    asks: tuple[Callable[[], object], ...] = (
        lambda: client.exec_sync(container, ["true"], 60),
        lambda: client.reopen_container_log(container),
    )
    for ask in asks:
        with pytest.raises(CriError):
            ask()
    client.start_container(container)
    for ask in asks:
        ask()
    client.stop_container(container, 0)
    for ask in asks:
        with pytest.raises(CriError):
            ask()


def test_a_container_that_is_not_there_executes_nothing_and_has_no_log(client: ContainerRuntime) -> None:
    asks: tuple[Callable[[], object], ...] = (
        lambda: client.exec_sync(UNKNOWN, ["true"], 60),
        lambda: client.reopen_container_log(UNKNOWN),
    )
    for ask in asks:
        with pytest.raises(CriError):
            ask()


def test_a_container_in_a_sandbox_that_was_stopped_is_not_started(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    container = pods.create(pod, pods.container_config(FOREVER))
    client.stop_pod_sandbox(pod.id)
    with pytest.raises(CriError):
        client.start_container(container)


def test_a_container_of_an_image_that_is_not_there_is_not_made(
    pods: Pods, client: ContainerRuntime, runtime: RuntimeUnderTest
) -> None:
    pod = pods.sandbox()
    config = pods.container_config(FOREVER)
    config.image.image = "localhost/never:pulled"
    if runtime.name == "processes":
        pytest.skip("the images of the process runtime are names")
    with pytest.raises(CriError):
        pods.create(pod, config)


def test_a_container_of_an_image_by_its_id_has_that_image(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    config = pods.container_config(FOREVER)
    image = client.image_status(config.image)
    assert image is not None
    config.image.image = image.id
    container = pods.create(pod, config)
    assert client.container_status(container).status.state == pb.CONTAINER_CREATED
    assert client.image_status(pb.ImageSpec(image=image.id)) is not None


def test_nothing_is_made_in_a_sandbox_that_was_stopped(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    client.stop_pod_sandbox(pod.id)
    with pytest.raises(CriError):
        pods.create(pod, pods.container_config(FOREVER))


def test_stopping_a_sandbox_ends_its_containers_and_removing_it_removes_them(
    pods: Pods, client: ContainerRuntime
) -> None:
    pod = pods.sandbox()
    container = pods.start(pod, *FOREVER)
    client.stop_pod_sandbox(pod.id)
    status = pods.ended(container)
    assert (status.exit_code, status.reason) == (137, "Error")
    client.remove_pod_sandbox(pod.id)
    with pytest.raises(NotFoundError):
        client.container_status(container)


def test_stopping_or_removing_twice_succeeds(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    container = pods.start(pod, *FOREVER)
    for _ in range(2):
        client.stop_container(container, 0)
    assert pods.state(container) == pb.CONTAINER_EXITED
    for _ in range(2):
        client.remove_container(container)
    for _ in range(2):
        client.stop_pod_sandbox(pod.id)
    for _ in range(2):
        client.remove_pod_sandbox(pod.id)


def test_removing_a_container_that_runs_ends_it(pods: Pods, client: ContainerRuntime) -> None:
    container = pods.start(pods.sandbox(), *FOREVER)
    client.remove_container(container)
    assert client.list_containers(pb.ContainerFilter(id=container)) == []


def test_lists_are_filtered_by_id_state_sandbox_and_label(pods: Pods, client: ContainerRuntime) -> None:
    pod, other = pods.sandbox(), pods.sandbox()
    running, exited = (pods.start(pod, *FOREVER, name=name) for name in ("running", "exited"))
    client.stop_container(exited, 0)
    elsewhere = pods.create(other, pods.container_config(FOREVER, name="elsewhere"))

    def ids(**conditions: object) -> set[str]:
        ours = pb.ContainerFilter(label_selector=pods.labels)
        ours.MergeFrom(pb.ContainerFilter(**conditions))  # type: ignore[arg-type]
        return {container.id for container in client.list_containers(ours)}

    assert ids() == {running, exited, elsewhere}
    assert ids(id=exited) == {exited}
    assert ids(state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED)) == {elsewhere}
    assert ids(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)) == {running}
    assert ids(state=pb.ContainerStateValue(state=pb.CONTAINER_EXITED)) == {exited}
    assert ids(pod_sandbox_id=pod.id) == {running, exited}
    assert ids(label_selector={"test": "another"}) == set()
    client.stop_pod_sandbox(other.id)
    ready = pb.PodSandboxFilter(label_selector=pods.labels, state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY))
    assert {sandbox.id for sandbox in client.list_pod_sandboxes(ready)} == {pod.id}


def test_an_image_that_is_present_is_found_by_its_name(client: ContainerRuntime, runtime: RuntimeUnderTest) -> None:
    image = client.image_status(pb.ImageSpec(image=runtime.image))
    assert image is not None
    assert image.id


def test_garbage_collection_knows_the_image_of_a_container(
    pods: Pods, client: ContainerRuntime, runtime: RuntimeUnderTest
) -> None:
    """A runtime names one image in several ways: in a container it is not called as in the list."""
    pods.start(pods.sandbox(), *FOREVER)
    used = names_in_use(client.list_containers(), ())
    records = updated_records({}, client.list_images(), used, sandbox_images(client), 10.0)
    image = client.image_status(pb.ImageSpec(image=runtime.image))
    assert image is not None
    assert records[image.id].last_used == 10.0
    assert image.id not in {record.id for record in unused(records, 10.0, 0.0)}


def test_a_closed_client_fails_every_call_and_another_one_goes_on(client: ContainerRuntime, pods: Pods) -> None:
    pod = pods.sandbox()
    other = client.connect() if isinstance(client, FakeRuntime) else CriClient(pods.runtime.endpoint)
    other.close()
    with pytest.raises(ConnectionClosedError):
        other.list_containers()
    assert client.pod_sandbox_status(pod.id).status.state == pb.SANDBOX_READY


def test_streams_have_an_address(pods: Pods, client: ContainerRuntime) -> None:
    pod = pods.sandbox()
    container = pods.start(pod, *FOREVER)
    asks: tuple[Callable[[], str], ...] = (
        lambda: client.exec_url(container, ["true"], Streams()),
        lambda: client.attach_url(container, Streams()),
        lambda: client.port_forward_url(pod.id, [80]),
    )
    for ask in asks:
        assert ask().startswith("http://127.0.0.1:")


def test_missing_containers_have_no_streams(client: ContainerRuntime) -> None:
    asks: tuple[Callable[[], str], ...] = (
        lambda: client.exec_url(UNKNOWN, ["true"], Streams()),
        lambda: client.attach_url(UNKNOWN, Streams()),
        lambda: client.port_forward_url(SandboxId(UNKNOWN), [80]),
    )
    for ask in asks:
        with pytest.raises(CriError):
            ask()


def test_an_event_comes_when_the_lists_show_its_effect(
    pods: Pods, client: ContainerRuntime, runtime: RuntimeUnderTest
) -> None:
    listener = EventListener(client)
    if runtime.name == "containerd" and client.version().runtime_version.startswith("1.6"):
        assert isinstance(listener.error(), UnimplementedError)
        return
    if runtime.name != "containerd":
        listener.wait_opened()
    pod = pods.sandbox()
    container = pods.start(pod, *FOREVER)
    made = listener.until(pb.CONTAINER_STARTED_EVENT, pod.id)
    assert dict(made.pod_sandbox_status.labels) == dict(pod.config.labels)
    listener.until(pb.CONTAINER_CREATED_EVENT, container)
    listener.until(pb.CONTAINER_STARTED_EVENT, container)
    client.stop_container(container, 0)
    listener.until(pb.CONTAINER_STOPPED_EVENT, container)
    assert [c.state for c in client.list_containers(pb.ContainerFilter(id=container))] == [pb.CONTAINER_EXITED]
    client.remove_container(container)
    client.stop_pod_sandbox(pod.id)
    listener.until(pb.CONTAINER_STOPPED_EVENT, pod.id)
    client.remove_pod_sandbox(pod.id)
    listener.until(pb.CONTAINER_DELETED_EVENT, pod.id)


def test_the_event_stream_ends_when_its_client_is_closed(runtime: RuntimeUnderTest) -> None:
    actors = Threads()
    mine: ContainerRuntime = FakeRuntime(actors)
    if runtime.endpoint:
        mine = CriClient(runtime.endpoint, request_timeout=PATIENCE)
    listener = EventListener(mine)
    if runtime.name != "containerd":
        listener.wait_opened()
    mine.close()
    assert isinstance(listener.error(), (ConnectionClosedError, UnimplementedError))
    assert isinstance(EventListener(mine).error(), ConnectionClosedError)
    actors.close()
