"""Requests as they are read: what is taken, and what is refused before any handler sees it."""

import pytest

from beehive.http.errors import HttpStatusError
from beehive.http.request import MAX_HEAD
from tests.beehive.http.requests import parse


def head(target: str = "/a", *fields: str, version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"GET {target} {version}", "Host: node", *fields, "", ""]).encode("latin-1")


def test_a_request_is_taken_apart() -> None:
    request = parse(head("/exec/ns/pod/app?command=ls&command=-l&tty=1&x=", "Upgrade: websocket", "A:b") + b"more")
    assert (request.method, request.parts, request.path) == ("GET", ("exec", "ns", "pod", "app"), "/exec/ns/pod/app")
    assert request.all("command") == ("ls", "-l")
    assert request.first("x") == request.first("y") == ""
    assert (request.header("upgrade"), request.header("a"), request.header("b")) == ("websocket", "b", "")
    assert request.rest == b"more"


def test_what_follows_a_request_for_an_upgrade_is_no_body() -> None:
    """Whoever takes the connection over gets it."""
    request = parse(head("/exec", "Upgrade: SPDY/3.1", "Connection: Upgrade") + b"more", 100)
    assert (request.body, request.rest) == (b"", b"more")


def test_a_path_has_as_many_parts_as_the_bound() -> None:
    assert len(parse(head("/a" * 64)).parts) == 64


def test_a_header_may_have_tabs_and_bytes_of_any_encoding() -> None:
    """As Go's servers read it: a name in UTF-8, whose bytes are no printable characters of ISO 8859-1, refuses none."""
    name = "Öl\tdruck".encode().decode("latin-1")
    assert parse(head("/a", f"X-Name: {name}")).header("x-name") == name


def test_slashes_at_the_end_do_not_matter() -> None:
    assert parse(head("/pods/")).path == parse(head("/pods")).path == "/pods"
    assert parse(head("/")).parts == ()


@pytest.mark.parametrize(
    ("query", "on"), [("", False), ("f", True), ("f=", True), ("f=1", True), ("f=true", True), ("f=0", False),
                      ("f=false", False), ("g=1", False)]
)  # fmt: skip
def test_switches_are_read_as_kubernetes_reads_them(query: str, on: bool) -> None:
    assert parse(head(f"/a?{query}")).flag("f") is on


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\r\n\r\n",
        b"GET /a\r\n\r\n",
        b"GET a HTTP/1.1\r\n\r\n",
        b"GET http://host/a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/2\r\n\r\n",
        head("/a", "no colon"),
        b"GET /a HTTP/1.1\r\n Folded: x\r\nHost: node\r\n\r\n",
        head("/a", "Zero: \x00"),
        head("/a", "Bell: a\x07b"),
        head("/a", "Delete: a\x7fb"),
        head("/../etc/passwd"),
        head("/a/%2e%2e/b"),
        head("/a%2fb"),
        head("/a%00b"),
        head("/a//b"),
        head("/a/%ff"),
        head("/" + "a" * 300),
        head("/a?b=%ff"),
        head("/a?" + "&".join("b" for _ in range(5000))),
    ],
)
def test_a_malformed_request_is_refused(bad: bytes) -> None:
    with pytest.raises(HttpStatusError) as refusal:
        parse(bad)
    assert refusal.value.status == 400


def test_a_path_with_too_many_parts_is_nowhere() -> None:
    with pytest.raises(HttpStatusError) as refusal:
        parse(head("/a" * 65))
    assert refusal.value.status == 404


def test_a_request_without_a_host_is_refused() -> None:
    """As RFC 9112 has it; an older client knows no such header."""
    with pytest.raises(HttpStatusError, match="Host") as refusal:
        parse(b"GET / HTTP/1.1\r\n\r\n")
    assert refusal.value.status == 400
    assert parse(b"GET / HTTP/1.0\r\n\r\n").parts == ()


def test_a_head_is_bounded() -> None:
    with pytest.raises(HttpStatusError) as refusal:
        parse(b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD)
    assert refusal.value.status == 431
