"""Requests and responses as bytes: the same as by h11, whatever comes, in whatever pieces."""

from typing import Any

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modules.cloud.client.http.connection import RequestHead, request_text
from modules.cloud.client.http.response_reader import MAX_HEAD, ResponseMark, ResponseReader
from modules.cloud.client.transport import ResponseHead

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

LINES = st.sampled_from(
    [
        b"Content-Length: 3", b"content-length: 3", b"Content-Length: 03", b"Content-Length: 3, 3",
        b"Content-Length: 0x3", b"Content-Length:", b"Content-Length : 3", b"Content-Length: 0", b"Content-Length: 4",
        b"Content-Length: 99999999999999999999", b"Content-Length: 999999999999999999999",
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked", b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding:\tchunked", b"transfer-encoding:  chunked \t",
        b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade", b"Upgrade: websocket",
        b"Date: now", b"X: a b\tc", b"X:", b"X", b"X : a", b" folded", b"\tfolded", b"X: \xe9", b"X: \x01", b"X: \x7f",
        b"X: a\x00b", b"X: a\rb", b"X: a\nY: b", b": a", b"(: a", b"",
    ]
)  # fmt: skip
STATUS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK", b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.1 409 Conflict", b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 304 Not Modified", b"HTTP/1.1 100 Continue", b"HTTP/1.1 101 Switching", b"HTTP/1.1 600 x",
        b"HTTP/1.0 200 OK", b"HTTP/2.0 200 OK", b"http/1.1 200 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK", b"HTTP/1.1 200 \xe9", b"HTTP/1.1 200 a\x00", b" HTTP/1.1 200 OK", b"\r\nHTTP/1.1 200 OK",
    ]
)  # fmt: skip
BODIES = st.lists(
    st.sampled_from(
        [
            b"abc", b"{}", b"3\r\nabc\r\n", b"3;x=y\r\nabc\r\n", b"3 \r\nabc\r\n", b"3\nabc\n", b"03\r\nabc\r\n",
            b"3\r\nabcd\r\n", b"3\r\nab", b"A\r\n0123456789\r\n", b"a\r\n0123456789\r\n", b"0\r\n\r\n", b"00\r\n\r\n",
            b"0\r\nTrailer: x\r\n\r\n", b"0;x\r\n\r\n", b"0\r\nX\r\n\r\n", b"000000003\r\nabc\r\n", b"-3\r\nabc\r\n",
            b"fffffffffffffffffffff\r\n", b"ffffffff\r\nab", b"\r\n", b"\r", b"\n", b"0", b"x", PLAIN,
        ]
    ),
    max_size=4,
)  # fmt: skip
ENDINGS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"])


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """Bytes that are a response, or nearly."""
    usual = draw(st.lists(st.sampled_from([b"Date: now", b"Content-Type: application/json"]), max_size=1))
    lines = [
        draw(STATUS) if draw(st.booleans()) else b"HTTP/1.1 200 OK",
        *usual,
        *draw(st.lists(LINES, max_size=3)),
        b"",
    ]
    return b"".join(line + draw(ENDINGS) for line in lines) + b"".join(draw(BODIES))


def outcome(reader: Any, pieces: list[bytes], ending: str = "open") -> tuple[Any, ...]:
    """What a reader makes of some bytes: heads, body, how it ended, and whether the connection can be used again."""
    heads: list[Any] = []
    body = b""
    for piece in [*(each for each in pieces if each), *([b""] if ending == "closed" else [])]:
        reader.receive(piece)
        while True:
            try:
                part = reader.next()
            except h11.RemoteProtocolError as error:
                return heads, body, "refused", error.error_status_hint
            if part is None:
                break
            if isinstance(part, ResponseMark):
                return heads, body, part, reader.is_reusable
            if isinstance(part, ResponseHead):
                heads.append(part)
            else:
                body += part
    return heads, body, "waits", False


class ByH11(ResponseReader):
    """A reader that leaves everything to h11."""

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self._leave_to_h11()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """The data in pieces."""
    places = sorted({place % (len(data) + 1) for place in at})
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]


@given(
    responses(), st.lists(st.integers(0, 500), max_size=4), st.sampled_from(["open", "closed"]),
    st.sampled_from(["GET", "PATCH", "HEAD", "DELETE"]),
)  # fmt: skip
@example(CHUNKED + b"3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", [], "open", "GET")
@example(CHUNKED + b"3\r\nabc\r\n3;x\r\nabc\r\n0\r\n\r\n", [50], "open", "GET")
@example(CHUNKED + b"3\r\nabcX", [], "open", "GET")
@example(PLAIN + b"HTTP/1.1 200 OK\r\n", [], "open", "GET")
@example(PLAIN[:-1], [], "closed", "GET")
@example(PLAIN, [70, 71], "open", "HEAD")
def test_a_response_is_read_as_by_h11(data: bytes, at: list[int], ending: str, method: str) -> None:
    """Status, headers, body and end are the same, and what one refuses the other does."""
    pieces = cut(data, at)
    assert outcome(ResponseReader(method), pieces, ending) == outcome(ByH11(method), pieces, ending)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.replace(b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 3"),
        PLAIN.replace(b"Content-Length: 2", b"Content-Length: 2, 3"),
        PLAIN.replace(b"Content-Length: 2", b"Content-Length : 2"),
        PLAIN.replace(b"Content-Length: 2", b"Content-Length: -2"),
        PLAIN.replace(b"Content-Length: 2", b"X: y\nContent-Length: 0\r\nContent-Length: 2"),
        CHUNKED.replace(b"chunked", b"xchunked") + b"0\r\n\r\n",
        CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
        CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
        CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_a_response_that_may_end_elsewhere_is_refused(data: bytes) -> None:
    """Two lengths, or a response that others could read differently."""
    assert outcome(ResponseReader("GET"), [data])[2] == "refused"


def test_plain_responses_are_read_without_h11(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a length and in chunks, also with an empty body."""
    monkeypatch.setattr(h11, "Connection", None)
    empty = PLAIN.replace(b"Length: 2", b"Length: 0")[:-2]
    for data, body in ((PLAIN, b"{}"), (empty, b""), (CHUNKED + b"2\r\n{}\r\n1\r\n\n\r\n0\r\n\r\n", b"{}\n")):
        heads, read, end, is_reusable = outcome(ResponseReader("GET"), [data])
        assert ([head.status for head in heads], read, end, is_reusable) == ([200], body, ResponseMark.END, True)


def test_chunks_that_came_together_are_one_piece() -> None:
    """A watch passes all its events on together, and the beginning of the next one."""
    reader = ResponseReader("GET")
    reader.receive(CHUNKED + b"2\r\nab\r\n3\r\ncde\r\n4\r\nf")
    assert isinstance(reader.next(), ResponseHead)
    assert [reader.next(), reader.next()] == [b"abcdef", None]


def test_a_head_without_end_is_refused() -> None:
    """However it comes, no more of it is kept than h11 keeps."""
    reader = ResponseReader("GET")
    with pytest.raises(h11.RemoteProtocolError) as refused:
        for _ in range(3):
            reader.receive(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (MAX_HEAD // 6))
            reader.next()
    assert refused.value.error_status_hint == 431


TEXTS = st.text(st.sampled_from("aZ09-_/?=%& :,;\"'\t\r\n\0\x7fé{}"), max_size=6)


@given(st.sampled_from(["GET", "PATCH", "A B", "", "G\r\n"]), TEXTS, st.lists(st.tuples(TEXTS, TEXTS), max_size=3))
@example("PATCH", "/api/v1/pods?x=y", [("Content-Type", "application/json; charset=utf-8")])
@example("GET", "/", [("X", "a\r\nY: b")])
@example("GET", "/", [("X", "a\nY: b")])
@example("GET", "/ HTTP/1.1\r\nX: y", [])
def test_a_request_is_written_as_by_h11(method: str, path: str, headers: list[tuple[str, str]]) -> None:
    """Byte for byte; what h11 refuses is refused, and control characters besides."""
    fields = [("Host", "h:1"), *((name, value) for name, value in headers if name.lower() not in _FRAMING)]
    head = RequestHead(method, path, [*fields, ("Content-Length", "2")])
    try:
        ours = request_text(head, b"{}")
    except ValueError:
        ours = b""
    connection = h11.Connection(h11.CLIENT)
    try:
        events = (
            h11.Request(method=method, target=path, headers=head.headers),
            h11.Data(data=b"{}"),
            h11.EndOfMessage(),
        )
        theirs = b"".join(connection.send(event) or b"" for event in events)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        theirs = b""
    is_visible = all(character >= " " or character == "\t" for _, value in fields for character in value)
    assert ours == theirs or (not ours and ("\x7f" in repr_of(head) or not is_visible))


_FRAMING = ("host", "content-length", "transfer-encoding")


def repr_of(head: RequestHead) -> str:
    """All characters of a head."""
    return "".join([head.method, head.target, *(name + value for name, value in head.headers)])


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    """Of a server of HTTP/1.0 that has said all before it is read."""
    reader = ResponseReader("GET")
    for data in (b"HTTP/1.0 200 OK\r\n\r\nall", b""):
        reader.receive(data)
    head, *rest = (reader.next() for _ in range(3))
    assert isinstance(head, ResponseHead)
    assert rest == [b"all", ResponseMark.END]
