"""The server's side of HTTP/1.1."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.http.errors import HttpError
from beehive.http.server import RequestHead, ServerExchange, body_length

GET = b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"


def sent(*data: bytes) -> Callable[[], bytes]:
    """Reads of a connection, which ends after them."""
    reads = iter(data)
    return lambda: next(reads, b"")


def head(*fields: str) -> RequestHead:
    text = "\r\n".join(["POST /a HTTP/1.1", "Host: b", *fields, "", ""])
    return ServerExchange(1000).read_head(sent(text.encode()))


def test_a_request_and_its_response() -> None:
    exchange = ServerExchange(1000)
    read = exchange.read_head(sent(b"GET /a?b=c HTTP/1.1\r\nHost:", b" d\r\nAccept:x \r\n\r\nmore"))
    assert read == RequestHead("GET", "/a?b=c", (("host", "d"), ("accept", "x")), "1.1")
    assert (read.header("accept"), read.header("x"), exchange.rest) == ("x", "", b"more")
    response = exchange.response(200, [("Content-Length", "2")]) + exchange.data(b"ok") + exchange.end()
    assert response == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def test_a_body_that_comes_with_its_head_does_not_count_for_it() -> None:
    exchange = ServerExchange(1000)
    body = b"x" * 990
    read = exchange.read_head(sent(b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 990\r\n\r\n" + body))
    assert (read.method, exchange.read_body(sent())) == ("POST", body)


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"", 400), (GET[:9], 400), (b"\r\n\r\n", 400), (b"\x16\x03\x01", 400),
     (b"GET /a HTTP/2.0\r\nHost: b\r\n\r\n", 400), (b"GET /a HTTP/1.1\r\nX: " + b"x" * 1000, 431),
     (b"GET /a HTTP/1.1\r\nHost: b\r\nX: " + b"x" * 1000 + b"\r\n\r\n", 431), (b"GET /a HTTP/1.1\r\n\r\n", 400)],
)  # fmt: skip
def test_a_malformed_request_can_be_answered(data: bytes, status: int) -> None:
    exchange = ServerExchange(1000)
    with pytest.raises(HttpError) as error:
        exchange.read_head(sent(data))
    assert error.value.status == status
    assert exchange.response(status, [("Content-Length", "0")]).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(("version", "pieces"), [(b"1.1", b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"), (b"1.0", b"abcd")])
def test_a_body_without_a_length_comes_in_chunks_to_clients_of_http_1_1(version: bytes, pieces: bytes) -> None:
    exchange = ServerExchange(1000)
    exchange.read_head(sent(b"GET / HTTP/" + version + b"\r\nHost: a\r\n\r\n"))
    assert (b"chunked" in exchange.response(200, [])) is (version == b"1.1")
    assert exchange.data(b"abc") + exchange.data(b"") + exchange.data(b"d") + exchange.end() == pieces


def test_a_head_has_no_body_but_its_length() -> None:
    exchange = ServerExchange(1000)
    exchange.read_head(sent(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"))
    assert b"Content-Length: 2\r\n" in exchange.response(200, [("Content-Length", "2")])
    assert exchange.data(b"ok") == b""


def test_a_body_is_read_to_its_end() -> None:
    exchange = ServerExchange(1000)
    data = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    receive = sent(data, b"hel", b"lo and more")
    assert body_length(exchange.read_head(receive), 10) == 5
    assert exchange.go_ahead() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (exchange.read_body(receive), exchange.rest, exchange.go_ahead()) == (b"hello", b" and more", b"")


@pytest.mark.parametrize(
    ("field", "status"),
    [("Content-Length: 11", 413), ("Content-Length: 99999999999999999999", 413), ("Transfer-Encoding: chunked", 411),
     ("Content-Length: -1", 400), ("Content-Length: 1, 2", 400)],
)  # fmt: skip
def test_a_body_without_a_bound_is_refused(field: str, status: int) -> None:
    with pytest.raises(HttpError) as error:
        body_length(head(field), 10)
    assert error.value.status == status


@pytest.mark.parametrize(
    ("rest", "is_unread"),
    [(b"\r\n", False), (b"Connection: close\r\n\r\n", False), (b"\r\nGET /", True),
     (b"Content-Length: 3\r\n\r\nabc", False), (b"Content-Length: 3\r\n\r\nab", True),
     (b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", True),
     (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", False),
     (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc", True), (b"Transfer-Encoding: chunked\r\n\r\nx\r\n", True),
     (b"Connection: upgrade\r\nUpgrade: x\r\n\r\n", False), (b"Connection: upgrade\r\nUpgrade: x\r\n\r\nab", True),
     (b"X: " + b"x" * 1000, True), (b"", True)],
)  # fmt: skip
def test_bytes_that_a_client_still_sends_after_the_response(rest: bytes, *, is_unread: bool) -> None:
    exchange = ServerExchange(1000)
    with contextlib.suppress(HttpError):
        exchange.read_head(sent(b"POST / HTTP/1.1\r\nHost: a\r\n" + rest))
    exchange.response(400, [("Content-Length", "0")])
    exchange.end()
    assert exchange.is_unread is is_unread


@given(st.binary(max_size=200), st.sampled_from([b"", b"GET /"]))
def test_any_bytes_are_a_request_or_an_error(data: bytes, begin: bytes) -> None:
    exchange = ServerExchange(100)
    try:
        exchange.read_head(sent(begin + data))
    except HttpError as error:
        assert error.status in (400, 431, 501)


def test_a_connection_is_kept_for_the_next_request_after_a_whole_one() -> None:
    exchange = ServerExchange(1000)
    exchange.read_head(sent(GET + b"GET /b HTTP/1.1\r\n"))
    assert exchange.read_body(sent()) == b""
    response = exchange.response(200, [("Content-Length", "2")], keeps=True) + exchange.data(b"ok") + exchange.end()
    assert b"Connection" not in response
    assert exchange.next_request()
    exchange.receive(b"Host: b\r\n\r\n")
    assert exchange.read_head(sent()).target == "/b"


@pytest.mark.parametrize(
    "request_", [b"GET / HTTP/1.0\r\n\r\n", GET[:-2] + b"Connection: close\r\n\r\n",
                 b"POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\na"],
)  # fmt: skip
def test_a_connection_ends_with_a_client_that_closes_it_or_has_not_sent_its_request_whole(request_: bytes) -> None:
    exchange = ServerExchange(1000)
    exchange.read_head(sent(request_))
    with contextlib.suppress(HttpError):
        exchange.read_body(sent())
    assert b"Connection: close" in exchange.response(200, [("Content-Length", "0")], keeps=True) + exchange.end()
    assert not exchange.next_request()


def test_each_head_of_a_kept_connection_has_the_whole_bound() -> None:
    exchange = ServerExchange(200)
    for _ in range(5):
        exchange.receive(GET[:-2] + b"X: " + b"x" * 120 + b"\r\n\r\n")
        exchange.read_head(sent())
        exchange.read_body(sent())
        exchange.response(200, [("Content-Length", "0")], keeps=True)
        exchange.end()
        assert exchange.next_request()
