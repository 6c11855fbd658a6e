"""The connection: addresses, the version of CRI, deadlines, sizes, and failures."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from edged.cri import (
    ConnectionClosedError,
    CriError,
    DeadlineExceededError,
    ExhaustedError,
    NotFoundError,
    SandboxId,
    UnavailableError,
    UnimplementedError,
    endpoint,
)
from edged.cri.client import CriClient
from edged.cri.contract import ContainerId
from edged.cri.endpoint import Endpoint, EndpointError, socket_path
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.fake_server import FakeServer, failing, version_answer
from tests.support.patience import PATIENCE

V1, V1ALPHA2 = "runtime.v1", "runtime.v1alpha2"


class Fakes:
    """Makes servers and clients for one test, and closes them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: list[Any] = []

    def server(self, *api_versions: str, name: str = "s", **handlers: Any) -> FakeServer:
        """A running server; a handler for `Version` means RuntimeService/Version, `ImageFsInfo` of ImageService."""
        images = {m.name for m in pb.DESCRIPTOR.services_by_name["ImageService"].methods}
        named = {f"{'Image' if key in images else 'Runtime'}Service/{key}": h for key, h in handlers.items()}
        server = FakeServer(self._directory / name, api_versions, named)
        server.__enter__()
        self._open.append(server)
        return server

    def client(self, *arguments: Any, **options: Any) -> CriClient:
        """A client that is closed after the test."""
        client = CriClient(*arguments, **options)
        self._open.append(client)
        return client

    def close(self) -> None:
        """Closes all, the last made first."""
        for thing in reversed(self._open):
            thing.close() if isinstance(thing, CriClient) else thing.__exit__()


@pytest.fixture
def fakes(tmp_path: Path) -> Iterator[Fakes]:
    made = Fakes(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("endpoint", ["unix:///run/a.sock", "unix:/run/a.sock", "/run/a.sock"])
def test_endpoints_are_accepted_in_the_forms_kubelet_accepts(endpoint: str) -> None:
    assert socket_path(endpoint) == Path("/run/a.sock")


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "unix://",
        "unix://run/a.sock",
        "run/a.sock",
        "tcp://127.0.0.1:1",
        "/",
        "/run/a%41.sock",
        "/run/a b",
        "/" + "a" * 107,
    ],
)
def test_other_endpoints_are_refused_with_the_value_in_the_error(endpoint: str) -> None:
    with pytest.raises(EndpointError, match=repr(endpoint)):
        socket_path(endpoint)


def test_calls_of_this_process_that_fail_are_forgotten() -> None:
    """`close` would end them again, and they would be kept for ever."""

    def events(_: object, on_end: Callable[[Callable[[], None]], None]) -> Any:
        on_end(lambda: None)
        return (1 // each for each in (0,))

    def status(_: object, on_leave: Callable[[Callable[[], None]], None], **__: object) -> Any:
        return next(events(_, on_leave))

    path = "/runtime.v1.RuntimeService"
    local: dict[str, Callable[..., Any]] = {f"{path}/Status": status, f"{path}/GetContainerEvents": events}
    runtime = Endpoint("/run/a.sock", lambda *_: None, local)
    with pytest.raises(ZeroDivisionError):
        runtime.call(pb.StatusRequest(), pb.StatusResponse, 1.0)
    with pytest.raises(ZeroDivisionError):
        runtime.stream(pb.GetEventsRequest(), pb.ContainerEventResponse, lambda: None, lambda _: None)
    with pytest.raises(ZeroDivisionError), runtime._finished("start", "container c1"):
        next(events(None, lambda _: None))
    assert (runtime._leaving, runtime._endings, runtime._under_way) == (set(), set(), 0)


def test_a_call_of_this_process_that_begins_while_it_is_closed_is_left() -> None:
    """`close` has left those that it knew, and nothing else would end it."""
    left: list[bool] = []

    def status(_: object, on_leave: Callable[[Callable[[], None]], None], **__: object) -> Any:
        runtime.close()
        on_leave(lambda: left.append(True))
        return pb.StatusResponse()

    runtime = Endpoint("/run/a.sock", lambda *_: None, {"/runtime.v1.RuntimeService/Status": status})
    runtime.call(pb.StatusRequest(), pb.StatusResponse, 1.0)
    assert left == [True]


def test_v1_is_spoken_where_it_is_known(fakes: Fakes) -> None:
    server = fakes.server(V1, V1ALPHA2, Version=version_answer)
    fakes.client(server.endpoint).version()
    assert set(server.called) == {f"/{V1}.RuntimeService/Version"}


def test_v1alpha2_is_spoken_to_a_runtime_that_does_not_know_v1(fakes: Fakes) -> None:
    """The fallback is found once, for runtime and image calls, and later calls ask nothing more."""
    images = pb.ListImagesResponse(images=[pb.Image(id="one")])
    server = fakes.server(V1ALPHA2, Version=version_answer, ListImages=lambda *_: images)
    client = fakes.client(server.endpoint)
    assert client.version().runtime_name == "fake"
    assert [image.id for image in client.list_images()] == ["one"]
    assert server.called == [
        f"/{V1}.RuntimeService/Version",
        f"/{V1ALPHA2}.RuntimeService/Version",
        f"/{V1ALPHA2}.RuntimeService/Version",
        f"/{V1ALPHA2}.ImageService/ListImages",
    ]


@pytest.mark.parametrize(
    "ask",
    [CriClient.version, lambda client: client.container_events(lambda: None, lambda _: None)],
    ids=["call", "stream"],
)
def test_a_runtime_exchanged_for_one_without_the_old_version_is_asked_again(
    fakes: Fakes, ask: Callable[[CriClient], object]
) -> None:
    """One call fails (containerd 1.5 replaced by 2.0 under a running edged), the next finds the new version."""
    server = fakes.server(V1ALPHA2, Version=version_answer)
    client = fakes.client(server.endpoint)
    client.version()
    server.api_versions = (V1,)
    with pytest.raises(UnimplementedError):
        ask(client)
    assert client.version().runtime_name == "fake"
    assert server.called[-1] == f"/{V1}.RuntimeService/Version"


def test_a_call_the_runtime_lacks_does_not_make_the_client_doubt_the_version(fakes: Fakes) -> None:
    server = fakes.server(V1, Version=version_answer)
    client = fakes.client(server.endpoint)
    for _ in range(2):
        with pytest.raises(UnimplementedError):
            client.status()
    assert server.called.count(f"/{V1}.RuntimeService/Version") == 1


def test_a_server_that_is_no_runtime_is_an_error_that_names_the_call(fakes: Fakes) -> None:
    server = fakes.server("something.else")
    with pytest.raises(UnimplementedError, match=r"Version.*unknown service runtime\.v1\.RuntimeService"):
        fakes.client(server.endpoint).version()


def test_images_are_asked_of_their_own_endpoint_with_their_own_version(fakes: Fakes) -> None:
    """The image endpoint serves no Version: its version of CRI is found with ImageFsInfo."""
    runtime = fakes.server(V1, name="r", Version=version_answer)
    usage = pb.FilesystemUsage(fs_id=pb.FilesystemIdentifier(mountpoint="/images"))
    answer = pb.ImageFsInfoResponse(image_filesystems=[usage])
    images = fakes.server(V1ALPHA2, name="i", ImageFsInfo=lambda *_: answer)
    client = fakes.client(runtime.endpoint, images.endpoint)
    assert client.version().runtime_name == "fake"
    assert [fs.fs_id.mountpoint for fs in client.image_fs_info()] == ["/images"]
    assert {path.rpartition("/")[2] for path in images.called} == {"ImageFsInfo"}
    assert {path.rpartition("/")[2] for path in runtime.called} == {"Version"}


def test_a_socket_that_is_not_there_is_unavailable_and_worth_another_try(fakes: Fakes, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="containerRuntimeEndpoint") as caught:
        fakes.client(f"unix://{tmp_path}/missing").version()
    assert caught.value.retryable


def test_a_runtime_that_starts_later_is_found_by_the_same_client(fakes: Fakes, tmp_path: Path) -> None:
    client = fakes.client(f"unix://{tmp_path}/s")
    with pytest.raises(UnavailableError):
        client.version()
    fakes.server(V1, Version=version_answer)
    for _ in range(1200):
        try:
            assert client.version().runtime_name == "fake"
            return
        except UnavailableError:
            threading.Event().wait(0.05)
    pytest.fail("the client did not connect again within 60 s")


@pytest.fixture
def hanging() -> Iterator[Callable[[Any, grpc.ServicerContext], Message]]:
    """A handler that answers when the test is over."""
    over = threading.Event()

    def handler(request: Any, context: grpc.ServicerContext) -> Message:
        over.wait(PATIENCE)
        return pb.StatusResponse()

    yield handler
    over.set()


def test_a_call_ends_with_the_request_timeout(fakes: Fakes, hanging: Any) -> None:
    server = fakes.server(V1, Version=version_answer, Status=hanging)
    client = fakes.client(server.endpoint, request_timeout=PATIENCE)
    client.version()  # the connection and the version are there, however long that takes
    client._timeout = 0.5
    with pytest.raises(DeadlineExceededError, match="Status"):
        client.status()


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda c: c.stop_container(ContainerId("a"), 300), 400),
        (lambda c: c.exec_sync(ContainerId("a"), ["true"], 70), 170),
        (lambda c: c.run_pod_sandbox(pb.PodSandboxConfig()), 200),
        (lambda c: c.start_container(ContainerId("a")), 100),
    ],
    ids=["stop waits for the grace period too", "exec for the command too", "sandboxes twice", "others once"],
)
def test_deadlines_are_kubelets(fakes: Fakes, call: Any, most: float) -> None:
    """Seconds until the deadline that the runtime sees, with a request timeout of 100 s; the call may take a while."""
    seen: list[float] = []

    def note(answer: Message) -> Any:
        def handler(request: Any, context: grpc.ServicerContext) -> Message:
            seen.append(context.time_remaining())
            return answer

        return handler

    server = fakes.server(
        V1,
        Version=version_answer,
        StopContainer=note(pb.StopContainerResponse()),
        ExecSync=note(pb.ExecSyncResponse()),
        RunPodSandbox=note(pb.RunPodSandboxResponse()),
        StartContainer=note(pb.StartContainerResponse()),
    )
    call(fakes.client(server.endpoint, request_timeout=100))
    assert most - 25 < seen[0] < most + 1.5  # gRPC rounds deadlines up


def test_a_command_without_a_limit_has_no_deadline(fakes: Fakes) -> None:
    """A postStart hook may take as long as it likes, however short the request timeout is."""
    seen: list[float] = []

    def execute(request: Any, context: grpc.ServicerContext) -> Message:
        seen.append(context.time_remaining())
        return pb.ExecSyncResponse()

    server = fakes.server(V1, Version=version_answer, ExecSync=execute)
    fakes.client(server.endpoint, request_timeout=PATIENCE).exec_sync(ContainerId("a"), ["true"], 0)
    assert seen[0] > 1e9


@pytest.mark.parametrize(("pull_timeout", "least", "most"), [(None, 1e9, float("inf")), (100.0, 75, 101.5)])
def test_pulls_have_the_deadline_they_were_given_and_by_default_none(
    fakes: Fakes, pull_timeout: float | None, least: float, most: float
) -> None:
    """A pull is not bound by the request timeout, here a minute."""
    seen: list[float] = []

    def pull(request: Any, context: grpc.ServicerContext) -> Message:
        seen.append(context.time_remaining())
        return pb.PullImageResponse(image_ref="sha256:1")

    server = fakes.server(V1, Version=version_answer, PullImage=pull)
    client = fakes.client(server.endpoint, request_timeout=PATIENCE, pull_timeout=pull_timeout)
    assert client.pull_image(pb.ImageSpec(image="a")) == "sha256:1"
    assert least <= seen[0] <= most


def test_credentials_go_to_the_runtime_and_into_no_error(fakes: Fakes) -> None:
    """A runtime that repeats the password in its error (as registries' URLs do) does not make us repeat it."""
    received: list[pb.AuthConfig] = []

    def refuse(request: pb.PullImageRequest, context: grpc.ServicerContext) -> Message:
        received.append(request.auth)
        context.abort(
            grpc.StatusCode.UNKNOWN,
            f"GET https://jane:{request.auth.password}@example.org/v2: denied {request.auth.registry_token}",
        )
        raise AssertionError

    server = fakes.server(V1, Version=version_answer, PullImage=refuse)
    auth = pb.AuthConfig(username="jane", password="c0rrect horse", registry_token="horse t0ken")  # noqa: S106 - must not be seen in the error
    with pytest.raises(CriError) as caught:
        fakes.client(server.endpoint).pull_image(pb.ImageSpec(image="example.org/a"), auth)
    assert received == [auth]
    everything = f"{caught.value!r} {caught.value} {caught.value.details} {caught.value.__cause__!r}"
    assert "horse" not in everything and "t0ken" not in everything
    assert "example.org/a" in str(caught.value)


def test_removing_and_stopping_missing_objects_are_successes(fakes: Fakes) -> None:
    """containerd 1.6 answers NotFound to these, newer runtimes do not."""
    gone = failing(grpc.StatusCode.NOT_FOUND, "not found")
    names = ("StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer", "RemoveImage")
    server = fakes.server(V1, Version=version_answer, **dict.fromkeys(names, gone))  # type: ignore[arg-type]
    client = fakes.client(server.endpoint)
    client.stop_pod_sandbox(SandboxId("a"))
    client.remove_pod_sandbox(SandboxId("a"))
    client.stop_container(ContainerId("a"), 0)
    client.remove_container(ContainerId("a"))
    client.remove_image(pb.ImageSpec(image="a"))
    assert {path.rpartition("/")[2] for path in server.called} == {"Version", *names}


def test_starting_a_missing_container_is_an_error_with_its_id(monkeypatch: pytest.MonkeyPatch, fakes: Fakes) -> None:
    """The end of the client does not wait for it."""
    monkeypatch.setattr("edged.cri.endpoint.FINISH_SECONDS", 0.0)
    server = fakes.server(V1, Version=version_answer, StartContainer=failing(grpc.StatusCode.NOT_FOUND, "no"))
    client = fakes.client(server.endpoint)
    with pytest.raises(NotFoundError, match="StartContainer of abc"):
        client.start_container(ContainerId("abc"))
    assert client._runtime._under_way == 0


def test_answers_of_many_megabytes_are_read_and_larger_ones_than_16_are_refused(fakes: Fakes) -> None:
    answers = [pb.ExecSyncResponse(stdout=b"x" * size) for size in (15 * 2**20, 17 * 2**20)]
    server = fakes.server(V1, Version=version_answer, ExecSync=lambda *_: answers.pop(0))
    client = fakes.client(server.endpoint)
    assert len(client.exec_sync(ContainerId("a"), ["cat"], 0).stdout) == 15 * 2**20
    with pytest.raises(ExhaustedError):
        client.exec_sync(ContainerId("a"), ["cat"], 0)


def closed_under_way(fakes: Fakes, hanging: Any, operation: str, ask: Callable[[CriClient], object]) -> CriClient:
    """A client that was closed while this call of it hung, and the call with it."""
    entered = threading.Event()

    def hang(request: Any, context: grpc.ServicerContext) -> Message:
        entered.set()
        answer: Message = hanging(request, context)
        return answer

    handlers: dict[str, Any] = {"Version": version_answer, operation: hang}
    server = fakes.server(V1, **handlers)
    client = fakes.client(server.endpoint)
    failures: list[CriError] = []

    def call() -> None:
        try:
            ask(client)
        except CriError as error:
            failures.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert entered.wait(PATIENCE)
    client.close()
    caller.join(60)
    assert [type(error) for error in failures] == [ConnectionClosedError]
    return client


def test_closing_ends_calls_under_way_and_refuses_later_ones(fakes: Fakes, hanging: Any) -> None:
    client = closed_under_way(fakes, hanging, "Status", CriClient.status)
    with pytest.raises(ConnectionClosedError):
        client.version()
    client.close()


def test_a_container_that_is_being_started_is_waited_for_when_the_connection_is_closed(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If broken off, the container would count as ended. Nothing else begins meanwhile; its end ends the waiting."""
    monkeypatch.setattr(endpoint, "FINISH_SECONDS", 600.0)
    entered, go_on = threading.Event(), threading.Event()

    def start(_request: Any, _context: grpc.ServicerContext) -> Message:
        entered.set()
        assert go_on.wait(PATIENCE)
        return pb.StartContainerResponse()

    server = fakes.server(V1, Version=version_answer, StartContainer=start)
    client = fakes.client(server.endpoint)
    ends: list[CriError | None] = []

    def ask() -> None:
        try:
            client.start_container(ContainerId("a"))
        except CriError as error:
            ends.append(error)
        else:
            ends.append(None)

    caller, closer = threading.Thread(target=ask), threading.Thread(target=client.close)
    caller.start()
    assert entered.wait(PATIENCE)
    closer.start()
    with pytest.raises(ConnectionClosedError):
        while True:  # until it is being closed
            client.version()
    assert closer.is_alive()
    assert ends == []
    go_on.set()
    for thread in (caller, closer):
        thread.join(60)
    assert (ends, closer.is_alive()) == ([None], False)


def test_a_start_that_does_not_end_keeps_nothing_open(
    fakes: Fakes, hanging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FINISH_SECONDS", 0.05)
    closed_under_way(fakes, hanging, "StartContainer", lambda client: client.start_container(ContainerId("a")))
