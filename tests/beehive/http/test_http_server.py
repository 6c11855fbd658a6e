"""The local HTTP server, over real sockets."""

import contextlib
import itertools
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Clock, RealClock
from beehive.http.connections import Client, OpenConnection, Phase
from beehive.http.errors import HttpStatusError
from beehive.http.events import SMALL_PIECES
from beehive.http.http_server import MAX_CONNECTIONS, MAX_STREAMS, REFUSALS, HttpServer, _Connection
from beehive.http.listening import listen_tcp, listen_unix
from beehive.http.request import Request
from beehive.http.responses import Handler, Peer, Reply, Response, Stream, Takeover, text
from beehive.http.router import Admitted, AdmittingService, HttpRoute, Router
from beehive.http.unsent_bytes import UnsentBytes
from beehive.rate import TokenBucket
from beehive.sockets.accepting import accept_connection
from beehive.sockets.ports import ListenError
from beehive.sockets.tls import default_client_context
from beehive.sockets.unix_sockets import short_name
from tests.end_to_end.processes import wait_until
from tests.modules.runtimes.oci.images.registry import certificates
from tests.support.failing import Failing, census
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

MEBIBYTE = 1 << 20
SPELLINGS = tuple(itertools.islice(itertools.product(*({each, each.upper()} for each in "bearer")), 18))


class Followed:
    """A stream that goes on until its reader goes."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.let_go = threading.Semaphore(0)

    def __call__(self, _request: Request) -> Stream:
        return Stream("text/plain", self._pieces, self.let_go.release)

    def _pieces(self, peer: Peer) -> Generator[bytes, None, None]:
        yield b"first\n"
        while not peer.gone_within(PATIENCE):
            yield b"next\n"
        self.gone.set()


def broken(_request: Request) -> Response:
    raise ValueError("a secret of the handler")


def refused(_request: Request) -> Response:
    raise HttpStatusError(422, "the option is not valid", "tailLines")


def torn(_request: Request) -> Stream:
    def pieces(_peer: Peer) -> Generator[bytes, None, None]:
        yield b"half of it"
        raise ValueError("the other half is not there")

    return Stream("text/plain", pieces, lambda: None)


def echo(request: Request) -> Takeover:
    """Says the six bytes that it was sent, backwards."""

    def carry_on(connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        data = request.rest
        while len(data) < 6:
            data += connection.recv(100)
        connection.sendall(data[::-1])

    return Takeover(carry_on, lambda: None)


def long(_request: Request) -> Stream:
    return Stream("text/plain", lambda _: (b"x" * 1000 for _ in range(500)), lambda: None)


ROUTES: dict[str, Handler] = {
    "/healthz": lambda _: text(200, "ok"),
    "/broken": broken,
    "/refused": refused,
    "/torn": torn,
    "/echo": echo,
    "/long": long,
    "/names/{name}": lambda request: text(200, f"{request.parts[1]} {request.first('q')}"),
}


def serving(*extra: HttpRoute, listening: socket.socket | None = None, idle_seconds: float = 0.0) -> HttpServer:
    routes = [HttpRoute(pattern, handler) for pattern, handler in ROUTES.items()]
    max_body = 1000 if idle_seconds else 0
    made = HttpServer(
        listening or listen_tcp("127.0.0.1", 0),
        Router([*routes, *extra]),
        RealClock(),
        max_body=max_body,
        idle_seconds=idle_seconds,
    )
    made.start()
    return made


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of a busy machine need longer for their requests."""
    monkeypatch.setattr("beehive.http.http_server.REQUEST_SECONDS", float(PATIENCE))
    monkeypatch.setattr("beehive.http.lingering_close.LINGERING_SECONDS", float(PATIENCE))


@pytest.fixture
def followed() -> Followed:
    return Followed()


@pytest.fixture
def server(followed: Followed) -> Iterator[HttpServer]:
    made = serving(HttpRoute("/follow", followed))
    yield made
    made.stop()
    assert not made._threads


def ask(server: HttpServer, method: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def raw(server: HttpServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_a_connection_without_a_thread_is_closed_and_leaves_its_place(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process has as many as it may."""
    before = census((server._open,))
    with monkeypatch.context() as patched:
        patched.setattr(
            threading.Thread, "start", Failing(0, RuntimeError("can't start new thread")).call(lambda: None)
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            assert connection.recv(100) == b""
    assert not census((server._open,)).more_than(before)
    assert ask(server, "GET", "/healthz") == (200, "ok")


def test_a_connection_that_fails_unforeseen_does_not_end_the_server(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No other would be accepted any more, while the port is open."""
    with monkeypatch.context() as patched:
        patched.setattr(server, "_secured", Failing(0, MemoryError()).call(server._secured))
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            assert connection.recv(100) == b""
        assert ask(server, "GET", "/healthz") == (200, "ok")
    assert "cannot serve a connection" in caplog.text


def test_a_server_without_a_thread_leaves_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients would wait for an answer."""
    before = census()
    refused = HttpServer(listen_tcp("127.0.0.1", 0), Router(()), RealClock())
    failing = Failing(0, RuntimeError("can't start new thread"))
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(threading.Thread, "start", failing.call(lambda: None))
        refused.start()
    assert not census().more_than(before)


def test_a_known_path_is_answered(server: HttpServer) -> None:
    assert ask(server, "GET", "/healthz") == (200, "ok")


def test_a_query_and_a_trailing_slash_do_not_matter(server: HttpServer) -> None:
    assert ask(server, "GET", "/healthz/?verbose") == (200, "ok")


def test_head_gives_the_length_without_the_body(server: HttpServer) -> None:
    answer = raw(server, b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"Content-Length: 2" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_an_unknown_path_names_the_known_ones(server: HttpServer) -> None:
    status, body = ask(server, "GET", "/nothing")
    assert status == 404
    assert "/healthz" in body


def test_nothing_can_be_written(server: HttpServer) -> None:
    """The refusal names the methods that there are (RFC 9110 §15.5.6)."""
    said = raw(server, b"POST /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in said


def test_a_handlers_failure_is_answered_without_its_reason(server: HttpServer) -> None:
    status, body = ask(server, "GET", "/broken")
    assert status == 500
    assert "secret" not in body
    assert ask(server, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("request_", [b"nonsense\r\n\r\n", b"\r\n\r\n", b"GET /healthz\r\n\r\n", b""])
def test_bytes_that_are_not_http_get_400(server: HttpServer, request_: bytes) -> None:
    assert raw(server, request_).startswith(b"HTTP/1.1 400")


def test_an_endless_head_is_cut_off(server: HttpServer) -> None:
    """The server answers, or resets the connection because it will not read the rest."""
    try:
        answer = raw(server, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000)
    except OSError:
        return
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")


def test_the_port_is_free_after_stop() -> None:
    first = serving()
    port = first.port
    first.stop()
    second = serving(listening=listen_tcp("127.0.0.1", port))
    assert ask(second, "GET", "/healthz") == (200, "ok")
    second.stop()


def test_the_port_is_closed_when_no_thread_accepts_any_more() -> None:
    """Its descriptor may be another file's a moment later."""
    accepting: list[bool] = []

    class Watched(socket.socket):
        def close(self) -> None:
            accepting.append(begun._thread.is_alive())
            super().close()

    begun = serving(listening=Watched(fileno=listen_tcp("127.0.0.1", 0).detach()))
    begun.stop()
    assert accepting == [False]


def test_an_address_that_is_taken_is_named_with_its_setting(server: HttpServer) -> None:
    with pytest.raises(ListenError, match="readOnlyPort"):
        listen_tcp("127.0.0.1", server.port)


def test_parts_of_a_path_and_the_query_are_decoded(server: HttpServer) -> None:
    assert ask(server, "GET", "/names/a%20b?q=%C3%A4+1") == (200, "a b ä 1")


def test_a_request_error_of_a_handler_is_the_response(server: HttpServer) -> None:
    assert ask(server, "GET", "/refused") == (422, "the option is not valid: tailLines\n")


def test_a_stream_comes_in_chunks(server: HttpServer) -> None:
    assert ask(server, "GET", "/long") == (200, "x" * 500_000)


def test_a_client_of_http_1_0_gets_a_stream_without_chunks(server: HttpServer) -> None:
    head, _, body = raw(server, b"GET /long HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"x" * 500_000


def test_head_of_a_stream_has_no_body(server: HttpServer) -> None:
    assert raw(server, b"HEAD /long HTTP/1.1\r\nHost: a\r\n\r\n").endswith(b"\r\n\r\n")


def test_a_stream_that_breaks_off_is_seen_to(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """The last chunk, which says that all is there, does not come."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /torn HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = connection.recv(1)
        wait_until(lambda: not len(server._open), "its thread has ended")
        connection.settimeout(0)
        answer += b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.endswith(b"half of it\r\n")
    assert ask(server, "GET", "/healthz") == (200, "ok")


def follow(server: HttpServer) -> socket.socket:
    """A connection with an open stream."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    connection.sendall(b"GET /follow HTTP/1.1\r\nHost: a\r\n\r\n")
    received = b""
    while b"first" not in received and b"503" not in received:
        chunk = connection.recv(1000)
        assert chunk, "the connection was closed"
        received += chunk
    return connection


def test_a_stream_ends_when_its_reader_goes(server: HttpServer, followed: Followed) -> None:
    follow(server).close()
    wait_until(lambda: not len(server._open), "its thread has ended")
    assert followed.gone.is_set()
    assert followed.let_go.acquire(blocking=False)


def test_a_slow_client_has_time_for_each_piece_of_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list may have megabytes; a deadline for all of it would end it on a slow machine."""
    sizes: list[int] = []

    class Sent(socket.socket):
        def sendall(self, data: Any, flags: int = 0) -> None:
            sizes.append(len(data))
            super().sendall(data, flags)

    monkeypatch.setattr(
        "beehive.http.connection_server.accept_connection",
        lambda listening, make_room: (
            (one := accept_connection(listening, 1.0, make_room)) and Sent(fileno=one.detach())
        ),
    )
    body = b"x" * 1_000_000
    with stopping(serving(HttpRoute("/large", lambda _: Response(200, "text/plain", body)))) as server:
        assert ask(server, "GET", "/large") == (200, body.decode())
    assert max(sizes) == 256 * 1024


def test_the_end_of_the_server_ends_streams(followed: Followed) -> None:
    server = serving(HttpRoute("/follow", followed))
    with follow(server) as connection:
        server.stop()
        assert followed.gone.is_set()
        while connection.recv(1000):
            pass


def test_streams_leave_room_for_questions(server: HttpServer, followed: Followed) -> None:
    """One more than there may be is refused, and what it would have used is let go of."""
    open_ones = [follow(server) for _ in range(MAX_STREAMS)]
    status, body = ask(server, "GET", "/follow")
    assert (status, "close one" in body) == (503, True)
    assert followed.let_go.acquire(timeout=PATIENCE)
    assert ask(server, "GET", "/healthz") == (200, "ok")
    for connection in open_ones:
        connection.close()


def test_connections_that_say_nothing_make_room(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """Sixty-four of one address, or of a hundred, keep nobody from being served, and are logged once."""
    with ExitStack() as stack:
        silent = [
            stack.enter_context(
                socket.create_connection(
                    ("127.0.0.1", server.port), timeout=PATIENCE, source_address=(f"127.0.1.{1 + number % 2}", 0)
                )
            )
            for number in range(MAX_CONNECTIONS + 8)
        ]
        for _ in range(3):
            assert ask(server, "GET", "/healthz") == (200, "ok")
        assert silent[0].recv(1) == b""
    assert [record.getMessage() for record in caplog.records if "connections are open" in record.getMessage()] == [
        f"the HTTP server at 127.0.0.1:{server.port}: 64 connections are open; closed is one of 127.0.1.1 that has "
        "sent no whole request"
    ]


def test_streams_do_not_count_as_connections(server: HttpServer) -> None:
    open_ones = [follow(server) for _ in range(MAX_STREAMS)]
    others = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(MAX_CONNECTIONS)]
    assert ask(server, "GET", "/healthz") == (200, "ok")
    for connection in (*open_ones, *others):
        connection.close()


def test_streams_take_the_place_of_no_connection_and_give_their_own_back(followed: Followed) -> None:
    """An address may have three connections beside three streams."""
    router = Router([HttpRoute("/follow", followed), HttpRoute("/healthz", lambda _: text(200, "ok"))])
    server = HttpServer(listen_tcp("127.0.0.1", 0), router, RealClock(), max_connections=4, max_streams=3)
    server.start()
    streams: list[socket.socket] = []
    try:
        for refused in (1, 0):
            streams = []
            for _ in range(3):
                streams.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
                streams[-1].sendall(b"GET /follow HTTP/1.1\r\nHost: a\r\n\r\n")
                assert streams[-1].recv(1000).startswith(b"HTTP/1.1 200 ")
            if refused:
                assert ask(server, "GET", "/healthz") == (200, "ok")
                assert ask(server, "GET", "/follow")[0] == 503
            for stream in streams:
                stream.close()
            wait_until(lambda: not len(server._open), "their threads have ended")
            for _ in range(3 + refused):
                assert followed.let_go.acquire(blocking=False)
    finally:
        for stream in streams:
            stream.close()
        server.stop()


class OfUsers(AdmittingService):
    """Serves whoever shows a token; `bearer` may be spelt in 64 ways, and a token has one user."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def admit(self, request: Request) -> Admitted:
        user = request.header("authorization").partition(" ")[2]
        return Admitted(self._handler, client=Client(user, is_privileged=user == "admin"))


def test_a_token_has_not_all_streams_however_it_is_spelt(followed: Followed) -> None:
    server = HttpServer(listen_tcp("127.0.0.1", 0), OfUsers(followed), RealClock(), max_streams=16)
    server.start()
    head = b"GET /follow HTTP/1.1\r\nHost: a\r\nAuthorization: %s\r\n\r\n"
    asked = [(f"{''.join(spelt)} one", 200 if number < 12 else 503) for number, spelt in enumerate(SPELLINGS)]
    asked += [("bearer two", 200), ("bearer three", 200), ("bearer four", 503), ("bearer admin", 200)]
    opened = []
    try:
        for credentials, status in asked:
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            opened.append(connection)
            connection.sendall(head % credentials.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 %d " % status)
    finally:
        for connection in opened:
            connection.close()
        server.stop()


def test_who_reads_nothing_loses_its_connections_and_others_get_their_answers() -> None:
    """570 unread watches with a megabyte each took cloudcore's memory; as many unread answers would, too."""
    memory = UnsentBytes(RealClock(), 8 * MEBIBYTE)

    def streamed(_request: Request) -> Stream:
        return Stream("text/plain", lambda _: (bytes(4 * MEBIBYTE) for _ in range(3)), lambda: None)

    def either(request: Request) -> Reply:
        return streamed(request) if request.path == "/stream" else Response(200, "text/plain", bytes(4 * MEBIBYTE))

    server = HttpServer(listen_tcp("127.0.0.1", 0), OfUsers(either), RealClock(), unsent=memory)
    server.start()
    with ExitStack() as stack:
        stack.callback(server.stop)

        def ask(path: str, user: str) -> socket.socket:
            made = stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)))
            made.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: bearer {user}\r\n\r\n".encode())
            return made

        unread = list[socket.socket]()
        for path in ("/stream", "/answer") * 4:
            unread.append(ask(path, "flood"))
            wait_until(lambda: len(memory._held) >= 1, "it waits for its client")
        wait_until(lambda: memory.used <= 8 * MEBIBYTE, "the others have let go")
        for path, size in (("/stream", 12), ("/answer", 4)):
            assert len(b"".join(_rest_of(ask(path, "other")))) > size * MEBIBYTE
        sizes = [len(b"".join(_rest_of(each))) for each in unread]
        assert sum(size < 4 * MEBIBYTE for size in sizes) >= 6
    wait_until(lambda: memory.used == 0, "nothing stays")


def test_a_stream_that_waits_for_its_next_piece_holds_none() -> None:
    """A watch that has nothing to send for an hour would have its last piece counted as long."""
    memory, is_asked, goes_on = UnsentBytes(RealClock()), threading.Event(), threading.Event()

    def pieces(_peer: Peer) -> Generator[bytes, None, None]:
        yield bytes(MEBIBYTE)
        is_asked.set()
        goes_on.wait(PATIENCE)

    reply = Stream("text/plain", pieces, lambda: None)
    server = HttpServer(listen_tcp("127.0.0.1", 0), OfUsers(lambda _: reply), RealClock(), unsent=memory)
    server.start()
    with ExitStack() as stack:
        stack.callback(server.stop)
        stack.callback(goes_on.set)
        made = stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)))
        made.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: bearer a\r\n\r\n")
        wait_until(lambda: bool(made.recv(MEBIBYTE)) and is_asked.is_set(), "the client has taken it")
        assert memory.used == 0


def _rest_of(connection: socket.socket) -> Iterator[bytes]:
    """What a connection still has, until it ends in whatever way."""
    with contextlib.suppress(OSError):
        yield from iter(lambda: connection.recv(MEBIBYTE), b"")


def test_bodies_that_do_not_come_to_their_end_are_bounded_together() -> None:
    memory = UnsentBytes(RealClock(), 2 * MEBIBYTE)
    server = HttpServer(
        listen_tcp("127.0.0.1", 0), OfUsers(lambda request: text(200, str(len(request.body)))), RealClock(),
        max_body=2 * MEBIBYTE, unsent=memory,
    )  # fmt: skip
    server.start()
    head = "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: bearer {}\r\nContent-Length: {}\r\n\r\n"
    with ExitStack() as stack:
        stack.callback(server.stop)
        unfinished = [
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)))
            for _ in range(3)
        ]
        for each in unfinished:
            with contextlib.suppress(OSError):
                each.sendall(head.format("flood", 2 * MEBIBYTE).encode() + bytes(MEBIBYTE))
        ended = select.select(unfinished, [], [], PATIENCE)[0]
        assert ended, "one has lost its connection"
        whole = stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)))
        whole.sendall(head.format("other", MEBIBYTE // 2).encode() + bytes(MEBIBYTE // 2))
        assert whole.recv(1000).endswith(b"%d" % (MEBIBYTE // 2))


def test_a_connection_is_handed_over_with_the_bytes_already_read(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\nabc")
        connection.sendall(b"def")
        assert b"".join(iter(lambda: connection.recv(100), b"")) == b"fedcba"


def test_a_unix_socket_is_its_owners_alone(tmp_path: Path) -> None:
    """Also below a path that is longer than a socket's name may be."""
    directory = tmp_path / ("long" * 30)
    directory.mkdir()
    path = directory / "edged.sock"
    path.write_text("left by a killed process")
    server = serving(listening=listen_unix(path))
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as connection, short_name(path) as name:
        connection.connect(name)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    server.stop()
    assert [each.name for each in directory.iterdir()] == ["edged.sock"]


def test_a_socket_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="rootDirectory"):
        listen_unix(tmp_path / "missing" / "edged.sock")


def body_server(max_body: int = 100) -> HttpServer:
    def echo(request: Request) -> Response:
        return Response(200, "text/plain", request.body)

    router = Router([HttpRoute("/body", echo, ("POST",))])
    made = HttpServer(listen_tcp("127.0.0.1", 0), router, RealClock(), max_body=max_body)
    made.start()
    return made


_TOO_LONG = b"Request entity too large: limit is 100"


@pytest.mark.parametrize(
    ("head", "body", "status", "answer"),
    [
        (b"Content-Length: 5", b"hello and more", 200, b"hello"),
        (b"X: y", b"", 200, b""),
        (b"Content-Length: 101", b"x" * 101, 413, _TOO_LONG),
        (b"Content-Length: -1", b"", 400, b"bad Content-Length"),
        (b"Content-Length: 99999999999999999999", b"", 413, _TOO_LONG),
        (b"Transfer-Encoding: chunked", b"0\r\n\r\n", 200, b""),
        (b"Transfer-Encoding: chunked", b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nA: b\r\n\r\nmore", 200, b"hello"),
        (b"Transfer-Encoding: chunked", b"33\r\n" + b"x" * 51 + b"\r\n32\r\n" + b"x" * 50, 413, _TOO_LONG),
        (b"Transfer-Encoding: chunked", b"64\r\n" + b"x" * 100 + b"\r\n0\r\n\r\n", 200, b"x" * 100),
        (b"Content-Length: 100", b"x" * 100, 200, b"x" * 100),
        (b"Transfer-Encoding: chunked", b"FFFFFFFFFF\r\n" + b"x" * 200, 413, _TOO_LONG),
        (b"Transfer-Encoding: chunked", b"3\r\nhel", 400, b""),
        (b"Transfer-Encoding: chunked", b"1\r\nx\r\n" * 101, 413, _TOO_LONG),
        (b"Transfer-Encoding: chunked", b"x\r\n", 400, b""),
        (b"Transfer-Encoding: gzip", b"x", 501, b""),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\nGET /", 400, b"two lengths"),
        (b"Content-Length: 5", b"hell", 400, b""),
    ],
)
def test_a_server_that_takes_bodies_reads_them_within_bounds(
    head: bytes, body: bytes, status: int, answer: bytes
) -> None:
    with stopping(body_server()) as server:
        said = raw(server, b"POST /body HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n" + body)
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert said.partition(b"\r\n\r\n")[2].endswith(answer) or answer in said


@pytest.mark.parametrize(
    ("piece", "pieces", "status"), [(1, SMALL_PIECES, 200), (1, SMALL_PIECES + 8, 400), (1000, 3 * SMALL_PIECES, 200)]
)
def test_a_body_comes_in_so_many_small_pieces_and_no_more(piece: int, pieces: int, status: int) -> None:
    """Each takes as long to read as a kilobyte, and is read before it is known who sends it."""
    with stopping(body_server(piece * pieces)) as server:
        chunks = (b"%x\r\n" % piece + b"x" * piece + b"\r\n") * pieces + b"0\r\n\r\n"
        said = raw(server, b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert said.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        (b"POST /body", b"Content-Length: 101", 413),
        (b"POST /body", b"X: " + b"x" * (64 * 1024), 431),
        (b"POST /%2e%2e", b"X: y", 400),
        (b"POST /body", b"Content-Length: -1", 400),
        (b"GET /broken", b"X: y", 500),
        (b"GET /stream", b"X: y", 503),
    ],
)
def test_what_the_service_does_not_answer_has_the_form_of_its_refusals(
    request_line: bytes, headers: bytes, status: int
) -> None:
    """An API's clients read its Status only: kubectl names no reason of a refusal in plain text."""

    def as_json(error: HttpStatusError) -> Response:
        return Response(error.status, "application/json", b'{"code":%d}' % error.status)

    router = Router([HttpRoute("/broken", broken), HttpRoute("/stream", Followed())])
    listening = listen_tcp("127.0.0.1", 0)
    with stopping(HttpServer(listening, router, RealClock(), max_body=100, refusal=as_json, max_streams=0)) as server:
        server.start()
        said = raw(server, request_line + b" HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert said.endswith(b'\r\n\r\n{"code":%d}' % status)


@pytest.mark.parametrize(("length", "status"), [(5, 100), (101, 413)])
def test_a_client_that_waits_for_100_continue_is_told_to_send_its_body(length: int, status: int) -> None:
    """curl waits a second, other clients until their time-out; one whose body is too long gets the refusal instead."""
    with (
        stopping(body_server()) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as waiting,
        waiting.makefile("rb") as answer,
    ):
        waiting.sendall(
            b"POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % length
        )
        assert answer.readline().startswith(b"HTTP/1.1 %d " % status)
        if status == 100:
            waiting.sendall(b"hello")
            assert answer.readline() == b"\r\n"
            assert answer.readline().startswith(b"HTTP/1.1 200 ")
            assert answer.read().endswith(b"\r\n\r\nhello")


class Deciding(AdmittingService):
    """Decides by the head what a handler says of it; what is no refusal is served."""

    def __init__(self, decide: Handler) -> None:
        self._decide = decide
        self.admitted: list[Request] = []

    def admit(self, request: Request) -> Admitted | Reply:
        self.admitted.append(request)
        reply = self._decide(request)
        is_refused = isinstance(reply, Response) and reply.status >= 400
        return reply if is_refused else Admitted(lambda whole: Response(200, "text/plain", whole.body), 100)


def refused_credentials() -> Response:
    raise HttpStatusError(401, "these are no credentials")


@pytest.mark.parametrize(
    ("decide", "status"), [(lambda _: refused_credentials(), 401), (lambda _: text(403, "no"), 403), (broken, 500)]
)
def test_nothing_is_read_for_a_refused_request_but_what_lets_the_connection_carry_another(
    decide: Handler, status: int
) -> None:
    """The answer comes before the body, however much is announced; a short body on its way is skipped."""
    with stopping(
        HttpServer(listen_tcp("127.0.0.1", 0), Deciding(decide), RealClock(), max_body=1 << 22, idle_seconds=PATIENCE)
    ) as server:
        server.start()
        head = b"POST /body HTTP/1.1\r\nHost: a\r\n"
        for announced in (b"Content-Length: 3000000", b"Transfer-Encoding: chunked",
                          b"Expect: 100-continue\r\nContent-Length: 5"):  # fmt: skip
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as waiting:
                waiting.sendall(head + announced + b"\r\n\r\n")
                answer = b"".join(iter(partial(waiting.recv, 4096), b""))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"\r\nConnection: close\r\n" in answer
        short = b"Content-Length: 60000\r\n\r\n" + b"x" * 60_000
        answers = raw(server, head + short + head + b"Connection: close\r\n" + short)
        assert answers.count(b"HTTP/1.1 %d " % status) == 2


@pytest.mark.parametrize(("length", "status"), [(100, 200), (101, 413)])
def test_a_service_bounds_the_body_of_what_it_admits(length: int, status: int) -> None:
    service = Deciding(lambda _: text(200, "ok"))
    with stopping(HttpServer(listen_tcp("127.0.0.1", 0), service, RealClock(), max_body=1 << 22)) as server:
        server.start()
        request = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length
        assert raw(server, request).startswith(b"HTTP/1.1 %d " % status)
    (admitted,) = service.admitted
    assert (admitted.body, admitted.has_body) == (b"", True)


def test_a_service_serves_a_request_that_has_been_read_whole() -> None:
    """Within the process, where nothing is to be read."""
    request = Request(method="POST", target="/", parts=(), body=b"hello")
    assert Deciding(lambda _: text(200, "")).serve(request) == Response(200, "text/plain", b"hello")
    assert Deciding(lambda _: text(403, "no")).serve(request) == text(403, "no")


def test_the_time_of_the_decision_is_not_the_client_s() -> None:
    """The node authorizer may answer late on a busy machine."""
    near, far = socket.socketpair()
    ahead = [0.0]
    clock = cast("Clock", SimpleNamespace(monotonic=lambda: ahead[0]))
    with near, far:
        connection = _Connection(OpenConnection("", near, 0.0), clock)
        far.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        request = connection.read_request()
        with connection.time_out():
            ahead[0] += 100.0 * PATIENCE
        far.sendall(b"hello")
        assert connection.read_body(request, 5, lambda _: None).body == b"hello"


@pytest.mark.parametrize("status", [401, 413])
def test_a_client_reads_the_refusal_of_a_body_that_it_is_still_sending(tmp_path: Path, status: int) -> None:
    """Over TLS and without: more than the kernel keeps of a body would make it reset the connection."""
    authority, certified = certificates(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certified)
    client = default_client_context(cafile=str(authority))

    service = Deciding(lambda _: refused_credentials() if status == 401 else text(200, "ok"))
    for context in (None, own):
        listening = listen_tcp("127.0.0.1", 0)
        server = HttpServer(listening, service, RealClock(), max_body=100, context=context, idle_seconds=PATIENCE)
        server.start()
        to = ("127.0.0.1", server.port)
        plain = HTTPConnection(*to, timeout=PATIENCE)
        connection = plain if context is None else HTTPSConnection(*to, timeout=PATIENCE, context=client)
        try:
            connection.request("POST", "/body", b"x" * (3 << 20))
            assert connection.getresponse().status == status
        finally:
            connection.close()
            server.stop()


def test_the_certificate_of_a_client_is_known_before_its_body_is_read(tmp_path: Path) -> None:
    authority, certified = certificates(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certified)
    own.load_verify_locations(authority)
    own.verify_mode = ssl.CERT_OPTIONAL
    client = default_client_context(cafile=str(authority))
    client.load_cert_chain(certified)
    service = Deciding(lambda _: text(200, "ok"))
    server = HttpServer(listen_tcp("127.0.0.1", 0), service, RealClock(), max_body=100, context=own)
    server.start()
    connection = HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE, context=client)
    try:
        connection.request("POST", "/body", b"x")
        assert connection.getresponse().status == 200
        certificates_seen = [dict(each.certificate or {}) for each in service.admitted]
        assert [each["subject"] for each in certificates_seen] == [((("commonName", "registry"),),)]
    finally:
        connection.close()
        server.stop()


def test_a_client_that_is_to_read_a_refusal_makes_room_for_others() -> None:
    """The one connection that an address may have neither sends the rest nor ends its side."""
    router = Router([HttpRoute("/body", lambda _: text(200, "ok"), ("POST",))])
    server = HttpServer(listen_tcp("127.0.0.1", 0), router, RealClock(), max_body=100, max_connections=2)
    with stopping(server):
        server.start()
        request = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as refused:
            refused.sendall(request % 101)
            while refused.recv(4096):
                pass  # its answer, and the end of the server's side
            assert raw(server, request % 2 + b"ok").startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_is_being_answered_makes_no_room() -> None:
    """The one that an address may have gets its answer; the next one is refused meanwhile."""
    is_asked, goes_on = threading.Event(), threading.Event()

    def slow(_request: Request) -> Response:
        is_asked.set()
        assert goes_on.wait(PATIENCE)
        return text(200, "ok")

    server = HttpServer(listen_tcp("127.0.0.1", 0), Router([HttpRoute("/slow", slow)]), RealClock(), max_connections=2)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as first:
            first.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            assert is_asked.wait(PATIENCE)
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as second:
                assert second.recv(1) == b""
            goes_on.set()
            assert first.recv(4096).startswith(b"HTTP/1.1 200 ")
    finally:
        goes_on.set()
        server.stop()


def test_a_stream_is_woken_by_a_descriptor() -> None:
    """The stream waits for its reader's end and for its own descriptor; later for its reader alone, as it asks."""
    reading, writing = os.pipe()
    woken: list[bool] = []
    waited: list[float] = []

    def pieces(peer: Peer) -> Generator[bytes, None, None]:
        woken.append(peer.gone_within(PATIENCE, reading))
        since = time.monotonic()
        woken.append(peer.gone_within(0.01))
        waited.append(time.monotonic() - since)
        yield b"woken"

    server = serving(HttpRoute("/wake", lambda _: Stream("text/plain", pieces, lambda: None)))
    try:
        os.write(writing, b"x")
        assert ask(server, "GET", "/wake") == (200, "woken")
    finally:
        server.stop()
        os.close(reading)
        os.close(writing)
    assert woken == [False, False]
    assert waited[0] >= 0.01


@pytest.fixture
def keeping() -> Iterator[HttpServer]:
    """A server that keeps connections."""
    made = serving(idle_seconds=PATIENCE)
    yield made
    made.stop()


def get(connection: HTTPConnection, path: str) -> str:
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def test_a_kept_connection_carries_one_request_after_the_other(keeping: HttpServer) -> None:
    connection = HTTPConnection("127.0.0.1", keeping.port, timeout=PATIENCE)
    assert get(connection, "/names/a") == "a "
    kept = connection.sock
    assert [get(connection, f"/names/{name}?q=x") for name in "bcd"] == ["b x", "c x", "d x"]
    assert connection.sock is kept
    assert get(connection, "/refused") == "the option is not valid: tailLines\n"
    assert connection.sock is kept
    connection.close()


def test_connections_are_ended_by_the_credentials_of_their_last_request(keeping: HttpServer) -> None:
    connection = HTTPConnection("127.0.0.1", keeping.port, timeout=PATIENCE)
    for token in ("one", "two"):
        connection.request("GET", "/healthz", headers={"Authorization": token})
        assert connection.getresponse().read() == b"ok"
    kept = connection.sock
    keeping.end_connections(lambda _, credentials: credentials == "one")
    connection.request("GET", "/healthz", headers={"Authorization": "two"})
    assert connection.getresponse().read() == b"ok"
    assert connection.sock is kept
    keeping.end_connections(lambda _, credentials: credentials == "two")
    assert kept.recv(1) == b""
    connection.close()


def test_each_request_of_a_kept_connection_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, begun, wait = [0.0], threading.Event(), _Connection.wait

    def waited(connection: _Connection, seconds: float) -> bool:
        has_begun = wait(connection, seconds)
        begun.set()
        return has_begun

    monkeypatch.setattr(_Connection, "wait", waited)
    clock = cast("Clock", SimpleNamespace(monotonic=lambda: RealClock.monotonic() + ahead[0]))
    routes = [HttpRoute("/names/{name}", ROUTES["/names/{name}"])]
    server = HttpServer(listen_tcp("127.0.0.1", 0), Router(routes), clock, max_body=1000, idle_seconds=PATIENCE)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /names/a HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = b""
        while not answer.endswith(b"\r\n\r\na "):
            answer += connection.recv(4096)
        ahead[0] += 2.0 * PATIENCE
        connection.sendall(b"GET /names/b HTTP/1.1\r\n")
        assert begun.wait(PATIENCE)
        connection.sendall(b"Host: a\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    server.stop()


def test_requests_that_come_together_are_answered_in_order(keeping: HttpServer) -> None:
    request = "GET /names/{} HTTP/1.1\r\nHost: a\r\n{}\r\n"
    answer = raw(keeping, (request.format("a", "") + request.format("b", "Connection: close\r\n")).encode())
    assert answer.index(b"\r\n\r\na ") < answer.index(b"\r\n\r\nb ")


def test_a_connection_is_kept_after_a_stream(keeping: HttpServer) -> None:
    """And its client has the socket meanwhile, so that it can end the stream."""
    connection = HTTPConnection("127.0.0.1", keeping.port, timeout=PATIENCE)
    connection.request("GET", "/long")
    answer = connection.getresponse()
    kept = connection.sock
    assert kept is not None
    assert answer.read() == b"x" * 500_000
    assert get(connection, "/names/a") == "a "
    assert connection.sock is kept
    connection.close()


def test_idle_connections_give_way_to_new_ones(keeping: HttpServer) -> None:
    """One address has three quarters of them."""
    most = MAX_CONNECTIONS * 3 // 4
    kept = [HTTPConnection("127.0.0.1", keeping.port, timeout=PATIENCE) for _ in range(most + 2)]
    assert [get(each, "/names/a") for each in kept] == ["a "] * len(kept)
    ended: set[int] = set()
    with select.epoll() as waiting:
        for each in kept:
            waiting.register(each.sock, select.EPOLLIN | select.EPOLLONESHOT)
        while len(ended) < 2 and (ready := waiting.poll(PATIENCE)):
            ended.update(descriptor for descriptor, _ in ready)
    assert len(ended) == 2
    others = [each for each in kept if each.sock.fileno() not in ended]
    assert [get(each, "/names/b") for each in others] == ["b "] * most
    for each in kept:
        each.close()


@pytest.mark.parametrize("body", [b"", b"x"], ids=["without a body", "with a body"])
def test_a_connection_that_is_being_answered_gives_way_to_none(body: bytes) -> None:
    phases: list[Phase] = []

    def answer(_request: Request) -> Response:
        phases.extend(each.phase for each in begun._open._open)
        return text(200, "ok")

    begun = serving(HttpRoute("/mine", answer), idle_seconds=PATIENCE)
    with stopping(begun), closing(HTTPConnection("127.0.0.1", begun.port, timeout=PATIENCE)) as client:
        client.request("GET", "/mine", body)
        assert client.getresponse().read() == b"ok"
    assert phases == [Phase.ANSWERED]


def test_a_kept_connection_ends_when_no_request_comes() -> None:
    server = serving(idle_seconds=0.05)
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    assert get(connection, "/names/a") == "a "
    assert connection.sock.recv(1) == b""
    connection.close()
    server.stop()


@pytest.mark.parametrize("status", [401, 403, 429])
def test_refusals_without_end_are_held_back(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """Dozens of threads that only refuse stand in line for the interpreter before each step of every other request.
    Meanwhile the connection makes room for others, and what is no refusal is answered at once.
    """
    held: list[Phase] = []
    monkeypatch.setattr(_Connection, "pause", lambda self, _: held.append(self.open.phase))
    monkeypatch.setattr("beehive.http.http_server.TokenBucket", lambda _, burst: TokenBucket(1e-9, burst))
    with (
        stopping(serving(HttpRoute("/no", lambda _: text(status, "no")), idle_seconds=PATIENCE)) as server,
        closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as client,
    ):
        for path in ["/no"] * (REFUSALS + 2) + ["/healthz"] * 3:
            client.request("GET", path)
            answer = client.getresponse()
            assert (answer.status, bool(answer.read())) == (200 if path == "/healthz" else status, True)
    assert held == [Phase.IDLE] * 2


def test_clients_without_credentials_are_held_back_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What anybody may ask over HTTPS, such as the version, costs as much as a refusal. Without TLS nobody has any."""
    held: list[str] = []
    monkeypatch.setattr(_Connection, "pause", lambda self, _: held.append(self.open.credentials))
    monkeypatch.setattr("beehive.http.http_server.TokenBucket", lambda _, burst: TokenBucket(1e-9, burst))
    router = Router([HttpRoute(pattern, handler) for pattern, handler in ROUTES.items()])
    _, certified = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certified)
    for each in (context, None):
        server = HttpServer(listen_tcp("127.0.0.1", 0), router, RealClock(), idle_seconds=PATIENCE, context=each)
        server.start()
        trusting = ssl._create_unverified_context()  # noqa: S323 - of this test's own server
        client = (
            HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
            if each is None
            else HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE, context=trusting)
        )
        try:
            for credentials in [""] * (REFUSALS + 1) + ["Bearer known"] * 2:
                client.request("GET", "/healthz", headers={"Authorization": credentials} if credentials else {})
                assert client.getresponse().read() == b"ok"
        finally:
            client.close()
            server.stop()
    assert held == [""]


def test_who_is_held_back_does_not_outstay_its_connection() -> None:
    """It ends with it: a server that stops waits for nobody."""
    near, far = socket.socketpair()
    with near, far:
        connection = _Connection(OpenConnection("", near, 0.0), RealClock())
        connection.open.end()
        connection.pause(10 * PATIENCE)
