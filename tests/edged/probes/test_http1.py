"""The few lines of HTTP/1.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.probes.errors import NetworkError
from edged.probes.http1 import Head, body_ends, parse_head, redirected, request, request_path
from edged.probes.targets import HttpTarget

TARGET = HttpTarget("http", "10.0.0.9", 8080, "/a?b=c")


def lines(target: HttpTarget) -> list[str]:
    return request(target).decode().split("\r\n")


def test_a_request() -> None:
    target = TARGET._replace(headers=(("X", "1"), ("Connection", "keep-alive")))
    expected = ["GET /a?b=c HTTP/1.1", "Host: 10.0.0.9:8080", "X: 1", "Connection: close", "", ""]
    assert lines(target) == expected


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (HttpTarget("http", "h", 80, "/"), "h"),
        (HttpTarget("https", "h", 443, "/"), "h"),
        (HttpTarget("https", "h", 80, "/"), "h:80"),
        (HttpTarget("http", "fe80::1", 80, "/"), "[fe80::1]"),
        (HttpTarget("http", "h", 80, "/", (("host", "other"),)), "other"),
    ],
)
def test_the_host_header(target: HttpTarget, host: str) -> None:
    assert [line for line in lines(target) if line.lower().startswith("host:")] == [f"Host: {host}"]


@pytest.mark.parametrize(
    ("path", "sent"),
    [("", "/"), ("a", "/a"), ("/a b", "/a%20b"), ("/%41?x=%20&y#z", "/%41?x=%20&y"), ("/é", "/%C3%A9")],
)
def test_a_path_as_it_is_sent(path: str, sent: str) -> None:
    assert request_path(path) == sent


@given(st.text(), st.text())
def test_nothing_in_a_path_breaks_the_line(path: str, rest: str) -> None:
    path = (path + rest).encode("utf-8", "replace").decode()
    assert len(request(TARGET._replace(path=path)).splitlines()) == len(request(TARGET).splitlines())


def test_the_head_of_an_answer() -> None:
    assert parse_head(b"HTTP/1.0 302 Found\r\nLocation: /b\r\nX") == Head(302, {"location": "/b", "x": ""})


@pytest.mark.parametrize("head", [b"", b"SSH-2.0-OpenSSH", b"HTTP/1.1", b"HTTP/2 200", b"HTTP/1.1 ok 200", b"\xff"])
def test_what_is_no_http_is_an_error(head: bytes) -> None:
    with pytest.raises(NetworkError):
        parse_head(head)


@pytest.mark.parametrize(
    ("head", "body", "ends"),
    [
        (Head(200, {}), b"", False),
        (Head(204, {}), b"", True),
        (Head(200, {"content-length": "2"}), b"a", False),
        (Head(200, {"content-length": "2"}), b"ab", True),
        (Head(200, {"content-length": "x"}), b"ab", False),
        (Head(200, {"transfer-encoding": "chunked"}), b"2\r\nab\r\n", False),
        (Head(200, {"transfer-encoding": "chunked"}), b"2\r\nab\r\n0\r\n\r\n", True),
        (Head(200, {"content-length": "999999"}), b"x" * 10240, True),
    ],
)
def test_where_a_body_ends(head: Head, body: bytes, ends: bool) -> None:
    """Or 10 KiB have come."""
    assert body_ends(head, body) is ends


@pytest.mark.parametrize(
    ("status", "location", "following"),
    [
        (200, "/b", None),
        (304, "/b", None),
        (302, "", None),
        (302, "/b?c#d", TARGET._replace(path="/b?c")),
        (301, "b", TARGET._replace(path="/b")),
        (308, "https://10.0.0.9/b", TARGET._replace(scheme="https", port=443, path="/b")),
        (302, "http://10.0.0.9:81", TARGET._replace(port=81, path="")),
        (302, "http://elsewhere:8080/", None),
        (302, "ftp://10.0.0.9/", None),
        (302, "http://10.0.0.9:x/", None),
    ],
)
def test_redirects_are_followed_on_the_same_host_only(status: int, location: str, following: HttpTarget | None) -> None:
    assert redirected(TARGET, Head(status, {"location": location})) == following
