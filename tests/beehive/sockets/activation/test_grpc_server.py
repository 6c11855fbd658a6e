"""The gRPC server of this node's sockets, with clients that begin calls and send no request."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack

import grpc
import pytest

from beehive.clock import RealClock
from beehive.sockets.activation import ActivatedServer
from beehive.sockets.activation.grpc_server import LEAST_OPENED, CallPlaces, GrpcServer
from beehive.sockets.unix_sockets import bind_unix, connect_unix
from tests.end_to_end.processes import wait_until
from tests.support.patience import PATIENCE

CALLS = 2
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS = 1, 4
END_HEADERS, END_STREAM = 4, 1


ENTERED, GO_ON = threading.Semaphore(0), threading.Event()


def _held(request: bytes, _: object) -> bytes:
    ENTERED.release()
    GO_ON.wait(PATIENCE)
    return request


def _serve() -> GrpcServer:
    handlers = {
        "Held": grpc.unary_unary_rpc_method_handler(_held),
        "Echo": grpc.unary_unary_rpc_method_handler(lambda request, _: request),
        "Text": grpc.unary_unary_rpc_method_handler(lambda request, _: request, bytes.decode, str.encode),
        "Twice": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request, request])),
    }
    return GrpcServer({"test.Service": handlers}, "test", most_calls=CALLS, largest_request=1024)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    clock = RealClock()
    served = ActivatedServer(bind_unix(tmp_path / "s"), _serve, clock)
    yield tmp_path / "s"
    served.stop(None)
    served.join()
    clock.close()


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return pack(">I", len(content))[1:] + bytes([kind, flags]) + pack(">I", stream) + content


def _field(name: bytes, value: bytes) -> bytes:
    """A header that is not to be indexed (RFC 7541 section 6.2.2)."""
    return b"".join((b"\0", bytes([len(name)]), name, bytes([len(value)]), value))


def begun(path: Path, method: str, count: int, flags: int = END_HEADERS) -> socket.socket:
    """A connection with calls that have only their headers (RFC 9113)."""
    connection = connect_unix(path, PATIENCE)
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": method.encode(),
        b":authority": b"test",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    headers = b"".join(_field(name, value) for name, value in fields.items())
    calls = b"".join(_frame(HEADERS, flags, 2 * number + 1, headers) for number in range(count))
    connection.sendall(PREFACE + _frame(SETTINGS, 0, 0, b"") + calls)
    return connection


@pytest.mark.parametrize("method", ["Echo", "Twice"])
def test_calls_without_a_request_leave_threads_for_others(path: Path, method: str) -> None:
    """They are more than the threads, and come on several connections."""
    silent = [begun(path, f"/test.Service/{method}", LEAST_OPENED + CALLS) for _ in range(3)]
    with grpc.insecure_channel(f"unix:{path}") as channel:
        grpc.channel_ready_future(channel).result(timeout=PATIENCE)
        for number in range(10):
            asked = b"%d" % number
            assert channel.unary_unary("/test.Service/Echo")(asked, timeout=PATIENCE) == asked
            assert list(channel.unary_stream("/test.Service/Twice")(asked, timeout=PATIENCE)) == [asked, asked]
    for each in silent:
        each.close()


class Context:
    """What a call is told."""

    is_cancelled = False

    def cancel(self) -> None:
        """End it."""
        self.is_cancelled = True


def test_a_burst_of_as_many_calls_as_there_are_places_is_answered() -> None:
    """All begin before the first of their requests comes."""
    contexts, begun_, go_on = [Context() for _ in range(100)], threading.Semaphore(0), threading.Event()
    echo = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    answer = CallPlaces(len(contexts)).bounded(echo).stream_unary

    def late() -> Iterator[bytes]:
        begun_.release()
        go_on.wait(PATIENCE)
        yield b"a"

    with ThreadPoolExecutor(len(contexts)) as threads:
        answers = [threads.submit(answer, late(), context) for context in contexts]
        assert all(begun_.acquire(timeout=PATIENCE) for _ in contexts)
        go_on.set()
        assert [each.result(PATIENCE) for each in answers] == [b"a"] * len(contexts)
    assert not any(each.is_cancelled for each in contexts)


def test_a_call_beyond_the_places_is_refused_until_one_ends(path: Path) -> None:
    GO_ON.clear()
    with grpc.insecure_channel(f"unix:{path}") as channel:
        held = [channel.unary_unary("/test.Service/Held").future(b"a", timeout=PATIENCE) for _ in range(CALLS)]
        assert all(ENTERED.acquire(timeout=PATIENCE) for _ in held)
        echo = channel.unary_unary("/test.Service/Echo")
        with pytest.raises(grpc.RpcError) as refused:
            echo(b"b", timeout=PATIENCE)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        GO_ON.set()
        assert [each.result() for each in held] == [b"a"] * CALLS
        wait_until(lambda: echo.future(b"c", timeout=PATIENCE).exception() is None, "a place is free")


def test_requests_that_cannot_be_decoded_take_no_place_for_good(path: Path) -> None:
    """They are more than a connection may have calls at a time."""
    with grpc.insecure_channel(f"unix:{path}") as channel:
        text = channel.unary_unary("/test.Service/Text")
        for _ in range(2 * LEAST_OPENED):
            with pytest.raises(grpc.RpcError) as refused:
                text(b"\xff", timeout=PATIENCE)
            assert refused.value.code() == grpc.StatusCode.INTERNAL
        assert text(b"a", timeout=PATIENCE) == b"a"


def test_a_call_that_ends_without_a_request_is_answered(path: Path) -> None:
    with begun(path, "/test.Service/Echo", 1, END_HEADERS | END_STREAM) as connection:
        answer = b""
        while b"the call ended without a request" not in answer:
            data = connection.recv(4096)
            assert data, "the server has closed the connection"
            answer += data
