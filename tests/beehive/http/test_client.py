"""The client's side of HTTP/1.1."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.http.client import ClientExchange, ResponseHead
from beehive.http.errors import HttpError
from beehive.http.events import PIECE_BYTES, SMALL_PIECES

LIMIT = 100


def asked(*answer: bytes) -> tuple[ClientExchange, Callable[[], bytes]]:
    """An exchange whose request was sent, and the reads of its answer; the connection ends after them."""
    exchange = ClientExchange(1000)
    exchange.request("GET", "/", [("Host", "a")])
    reads = iter(answer)
    return exchange, lambda: next(reads, b"")


def test_a_request_with_a_body_has_its_length() -> None:
    request = ClientExchange(1000).request("GET", "/edge.crt", [("Host", "a:1"), ("NodeName", "n\u00e4")], b"abc")
    assert request == b"GET /edge.crt HTTP/1.1\r\nHost: a:1\r\nNodeName: n\xc3\xa4\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.parametrize("header", [("X", "a\r\nb"), ("X", "\0"), ("a b", "c"), ("", "c")])
def test_a_header_that_cannot_be_sent_is_an_error(header: tuple[str, str]) -> None:
    with pytest.raises(HttpError):
        ClientExchange(1000).request("GET", "/", [("Host", "a"), header])


def test_the_head_of_a_response() -> None:
    exchange, receive = asked(b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.0 302", b" Found\r\nLocation: /b\r\nX:\r\n\r\n")
    fields = (("location", "/b"), ("x", ""))
    assert exchange.read_head(receive) == ResponseHead(302, dict(fields), fields)


@pytest.mark.parametrize(
    "head",
    [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1", b"HTTP/1.1 ok 200\r\n\r\n", b"\xff", b"HTTP/1.1 200 OK\r\nX\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000],
)  # fmt: skip
def test_bytes_that_are_no_response_are_an_error(head: bytes) -> None:
    exchange, receive = asked(head)
    with pytest.raises(HttpError):
        exchange.read_head(receive)


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\nsecret : x\r\n\r\n", b"HTTP/1.1 secret\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: secret\0\r\n\r\n"],
)
def test_an_error_quotes_no_bytes_of_a_response(head: bytes) -> None:
    """They made an error's text of 240 kB of a header of 60, and may be a credential."""
    exchange, receive = asked(head)
    with pytest.raises(HttpError, match=r"illegal (status|header) line") as found:
        exchange.read_head(receive)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("header", [("X", "secret\n"), ("secret ", "x")])
def test_an_error_quotes_no_header_of_a_request(header: tuple[str, str]) -> None:
    with pytest.raises(HttpError, match="Illegal header") as found:
        ClientExchange(1000).request("GET", "/", [("Host", "a"), header])
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("fields", "sent", "body"),
    [
        (b"", [b"a", b"b"], b"ab"),
        (b"Content-Length: 2\r\n", [b"a", b"bc"], b"ab"),
        (b"Transfer-Encoding: chunked\r\n", [b"2\r\na", b"b\r\n0\r\n\r\n"], b"ab"),
        (b"Transfer-Encoding: chunked\r\n", [b"7\r\na0\r\n\r\nb\r\n0\r\n\r\n"], b"a0\r\n\r\nb"),
        (b"Content-Length: 999\r\n", [b"x" * 99, b"yz", b"never read"], b"x" * 99 + b"yz"),
    ],
    ids=["until the end", "by length", "in chunks", "a chunk with the end of a body", "up to the limit"],
)
def test_a_body(fields: bytes, sent: list[bytes], body: bytes) -> None:
    exchange, receive = asked(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n", *sent)
    exchange.read_head(receive)
    assert exchange.read_body(receive, LIMIT) == body


def test_a_body_that_ends_too_early_is_an_error() -> None:
    exchange, receive = asked(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
    exchange.read_head(receive)
    with pytest.raises(HttpError):
        exchange.read_body(receive, LIMIT)


@pytest.mark.parametrize(("skipped", "is_read"), [(100, True), (101, False)])
def test_informational_responses_are_bounded(skipped: int, is_read: bool) -> None:
    """A server could send them for ever."""
    exchange, receive = asked(*[b"HTTP/1.1 103 Early Hints\r\n\r\n"] * skipped, b"HTTP/1.1 204 Done\r\n\r\n")
    if is_read:
        assert exchange.read_head(receive).status == 204
        return
    with pytest.raises(HttpError, match="more than 100 informational"):
        exchange.read_head(receive)


@pytest.mark.parametrize(("size", "is_read"), [(1, False), (2 * PIECE_BYTES, True)])
def test_a_head_does_not_come_a_byte_at_a_time(size: int, is_read: bool) -> None:
    """Each read takes as long as one of kilobytes: 64 KiB took seconds of the processor."""
    head = b"HTTP/1.1 200 OK\r\nX: " + b"x" * size * (SMALL_PIECES + 8) + b"\r\n\r\n"
    exchange = ClientExchange(2 * len(head))
    exchange.request("GET", "/", [("Host", "a")])
    reads = iter([head[at : at + size] for at in range(0, len(head), size)])
    if is_read:
        assert exchange.read_head(lambda: next(reads)).status == 200
        return
    with pytest.raises(HttpError, match="more than 1024 reads"):
        exchange.read_head(lambda: next(reads))


@pytest.mark.parametrize("is_chunked", [True, False])
@pytest.mark.parametrize(("size", "pieces", "is_read"), [(1, 4096, True), (1, 4105, False), (1000, 9000, True)])
def test_a_body_comes_in_so_many_small_pieces(is_chunked: bool, size: int, pieces: int, is_read: bool) -> None:
    """In chunks that come at once, or in reads."""
    parts = [b"%x\r\n" % size + b"x" * size + b"\r\n" if is_chunked else b"x" * size] * pieces
    coding = b"Transfer-Encoding: chunked\r\n" if is_chunked else b""
    exchange, receive = asked(
        b"HTTP/1.1 200 OK\r\n" + coding + b"\r\n", *([b"".join(parts) + b"0\r\n\r\n"] if is_chunked else parts)
    )
    exchange.read_head(receive)
    if is_read:
        assert exchange.read_body(receive, size * pieces + 1) == b"x" * size * pieces
        return
    with pytest.raises(HttpError, match="more than 4096 pieces"):
        exchange.read_body(receive, size * pieces + 1)


@given(st.integers(1, 60))
def test_a_response_is_fed_as_it_comes(step: int) -> None:
    """However the bytes come, the head comes first, then the body without its chunks, and then it is complete."""
    exchange, _ = asked()
    head = b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    parts: list[ResponseHead | bytes] = []
    for start in range(0, len(answer), step):
        assert not exchange.complete
        parts += exchange.feed(answer[start : start + step])
    assert isinstance(parts[0], ResponseHead)
    assert (parts[0].status, exchange.complete) == (200, True)
    assert b"".join(part for part in parts[1:] if isinstance(part, bytes)) == b"abcde"


def test_a_response_that_ends_too_early_is_an_error_when_fed() -> None:
    exchange, _ = asked()
    assert len(list(exchange.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"))) == 2
    with pytest.raises(HttpError):
        list(exchange.feed(b""))
