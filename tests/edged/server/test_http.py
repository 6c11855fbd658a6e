"""The local HTTP server, over real sockets."""

import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from edged.server.http import Answer, Handler, HttpServer, text


def broken() -> Answer:
    raise ValueError("a secret of the handler")


ROUTES: dict[str, Handler] = {"/healthz": lambda: text(200, "ok"), "/broken": broken}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0, ROUTES)
    server.start()
    yield server
    server.stop()


def ask(server: HttpServer, method: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def raw(server: HttpServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_a_known_path_is_answered(server: HttpServer) -> None:
    assert ask(server, "GET", "/healthz") == (200, "ok")


def test_a_query_and_a_trailing_slash_do_not_matter(server: HttpServer) -> None:
    assert ask(server, "GET", "/healthz/?verbose") == (200, "ok")


def test_head_gives_the_length_without_the_body(server: HttpServer) -> None:
    answer = raw(server, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 2" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_an_unknown_path_names_the_known_ones(server: HttpServer) -> None:
    status, body = ask(server, "GET", "/nothing")
    assert status == 404
    assert "/healthz" in body


def test_nothing_can_be_written(server: HttpServer) -> None:
    assert ask(server, "POST", "/healthz")[0] == 405


def test_a_handler_that_fails_says_nothing_of_why(server: HttpServer) -> None:
    status, body = ask(server, "GET", "/broken")
    assert status == 500
    assert "secret" not in body
    assert ask(server, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("request_", [b"nonsense\r\n\r\n", b"\r\n\r\n", b"GET /healthz\r\n\r\n", b""])
def test_what_is_no_http_gets_400(server: HttpServer, request_: bytes) -> None:
    assert raw(server, request_).startswith(b"HTTP/1.1 400")


def test_an_endless_head_is_cut_off(server: HttpServer) -> None:
    """The server answers, or resets the connection because it will not read the rest."""
    try:
        answer = raw(server, b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 100_000)
    except OSError:
        return
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


def test_the_port_is_free_after_stop() -> None:
    first = HttpServer("127.0.0.1", 0, ROUTES)
    first.start()
    port = first.port
    first.stop()
    second = HttpServer("127.0.0.1", port, ROUTES)
    second.start()
    assert ask(second, "GET", "/healthz") == (200, "ok")
    second.stop()
