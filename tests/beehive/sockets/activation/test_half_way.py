"""Servers and calls that fail half-way: what they have left."""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from beehive.sockets.activation.grpc_server import CallPlaces
from beehive.sockets.activation.private_socket import PrivateSocket
from beehive.sockets.activation.selector_thread import SelectorThread
from beehive.sockets.activation.server import ActivatedServer
from beehive.testing import Harness
from tests.support.failing import Failing, PlannedError, census
from tests.support.patience import PATIENCE


def test_a_private_socket_that_is_not_bound_leaves_nothing() -> None:
    before = census()
    with pytest.raises(PlannedError):
        PrivateSocket(Failing(0).call(str))
    assert not census().more_than(before)


def test_a_connection_to_a_private_socket_is_closed_if_it_is_refused() -> None:
    with socket.socket(socket.AF_UNIX) as never_listens:
        private = PrivateSocket(never_listens.bind)
        before = census()
        with pytest.raises(ConnectionRefusedError):
            private.connect()
        assert not census().more_than(before)
        private.close()


def test_a_listening_socket_is_closed_if_no_thread_can_watch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = SelectorThread()
    monkeypatch.setattr(thread, "begin", Failing(0).call(thread.begin))
    listening = socket.socket(socket.AF_UNIX)
    with Harness() as bee, pytest.raises(PlannedError):
        ActivatedServer(listening, lambda: pytest.fail("nobody calls"), bee.clock, thread)
    assert listening.fileno() == -1


def test_a_connection_that_cannot_be_watched_is_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its client would wait for an answer of nobody. The next one is served."""
    thread, spoken = SelectorThread(), list[bytes]()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    listening.listen()
    watch, failing = thread.watch, Failing(0)

    def watch_client(watched: socket.socket, *how: Any) -> None:
        if watched is not listening:
            failing.step()
        watch(watched, *how)

    def start() -> Any:
        spoken.append(b"!")
        raise PlannedError

    with Harness() as bee:
        server = ActivatedServer(listening, start, bee.clock, thread)
        monkeypatch.setattr(thread, "watch", watch_client)
        for is_served in (False, True):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / "socket"))
                for _ in range(2):
                    thread.call(lambda: None).result()
                client.settimeout(PATIENCE if is_served else 0)
                with suppress(BrokenPipeError):
                    client.sendall(b"!")
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""
        server.stop(None)
    assert spoken == [b"!"]


def test_a_listening_socket_that_cannot_be_watched_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, listening = SelectorThread(), socket.socket(socket.AF_UNIX)
    monkeypatch.setattr(thread, "watch", Failing(0).call(thread.watch))
    before = census()
    with Harness() as bee, pytest.raises(PlannedError):
        ActivatedServer(listening, lambda: pytest.fail("nobody calls"), bee.clock, thread)
    assert listening.fileno() == -1
    assert not census().more_than(before)


class _Context:
    """What a call needs of gRPC's context."""

    def abort(self, code: grpc.StatusCode, _details: str) -> None:
        """End the call."""
        raise RuntimeError(code)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_call_that_fails_gives_its_place_back(is_stream: bool) -> None:
    def fails(_request: bytes, _context: object) -> Any:
        raise PlannedError

    places = CallPlaces(1)
    kind = grpc.unary_stream_rpc_method_handler if is_stream else grpc.unary_unary_rpc_method_handler
    handler: Any = places.bounded(cast("Any", kind(fails)))
    before = census((places,))
    for requests in (map(Failing(0).call(bytes), [b""]), iter([b""]), iter([b""])):
        with pytest.raises(PlannedError):
            if is_stream:
                list(handler.stream_stream(requests, _Context()))
            else:
                handler.stream_unary(requests, _Context())
    assert not census((places,)).more_than(before)
