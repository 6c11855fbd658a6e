"""The stream of events over a socket: its opening, its end, and the error of its end."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from edged.cri.client import CriClient
from edged.cri.errors import CriError, UnavailableError, UnimplementedError
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.event_listener import EventListener
from tests.edged.cri.fake_server import FakeServer, failing, version_answer
from tests.support.patience import PATIENCE

EVENTS = "RuntimeService/GetContainerEvents"
BOTH = ("runtime.v1", "runtime.v1alpha2")


def event(container: str) -> pb.ContainerEventResponse:
    """Some event."""
    return pb.ContainerEventResponse(container_id=container, container_event_type=pb.CONTAINER_STOPPED_EVENT)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., CriClient]]:
    """Starts a server with this GetContainerEvents, and connects to it."""
    servers: list[FakeServer] = []
    clients: list[CriClient] = []

    def make(events: Any, api_versions: tuple[str, ...] = BOTH) -> CriClient:
        handlers = {"RuntimeService/Version": version_answer} | ({EVENTS: events} if events is not None else {})
        server = FakeServer(tmp_path / "a.sock", api_versions, handlers)
        servers.append(server.__enter__())
        clients.append(CriClient(server.endpoint, request_timeout=PATIENCE))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
    for server in servers:
        server.__exit__()


def test_events_come_in_their_order_and_an_end_is_an_error(serve: Callable[..., CriClient]) -> None:
    listener = EventListener(serve(lambda *_: iter([event("a"), event("b")])))
    assert [listener.next().container_id, listener.next().container_id] == ["a", "b"]
    error = listener.error()
    assert isinstance(error, UnavailableError)
    assert "ended the stream" in str(error)


def test_a_stream_without_events_is_open_with_the_runtimes_header(serve: Callable[..., CriClient]) -> None:
    over = threading.Event()

    def quiet(_request: Any, context: grpc.ServicerContext) -> Iterator[pb.ContainerEventResponse]:
        context.send_initial_metadata(())
        over.wait(PATIENCE)
        yield from ()

    listener = EventListener(serve(quiet))
    listener.wait_opened()
    over.set()
    listener.error()


@pytest.mark.parametrize("api_versions", [BOTH, BOTH[1:]])
def test_a_runtime_without_events_is_unimplemented(
    serve: Callable[..., CriClient], api_versions: tuple[str, ...]
) -> None:
    assert isinstance(EventListener(serve(None, api_versions)).error(), UnimplementedError)


def test_the_error_has_the_runtimes_reason_for_the_end_of_the_stream(serve: Callable[..., CriClient]) -> None:
    error = EventListener(serve(failing(grpc.StatusCode.RESOURCE_EXHAUSTED, "4 streams are open already"))).error()
    assert isinstance(error, CriError)
    assert (error.operation, error.details) == ("GetContainerEvents", "4 streams are open already")


def test_a_missing_runtime_is_an_error_immediately(tmp_path: Path) -> None:
    client = CriClient(f"unix://{tmp_path}/none.sock", request_timeout=PATIENCE)
    assert isinstance(EventListener(client).error(), UnavailableError)
    client.close()


def test_the_older_version_is_asked_where_only_that_is_known(serve: Callable[..., CriClient]) -> None:
    listener = EventListener(serve(lambda *_: iter([event("a")]), BOTH[1:]))
    assert listener.next().container_id == "a"
    listener.error()
