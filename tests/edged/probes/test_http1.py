"""The path, the headers and the redirects of probes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.http.client import ClientExchange, ResponseHead
from edged.probes.sockets import redirected, request_headers, request_path
from edged.probes.targets import HttpTarget

TARGET = HttpTarget("http", "10.0.0.9", 8080, "/a?b=c")


def lines(target: HttpTarget) -> list[str]:
    request = ClientExchange(1024).request("GET", request_path(target.path), request_headers(target))
    return request.decode().split("\r\n")


def test_a_request() -> None:
    """Headers that a GET without a body cannot have are left out, as Go does."""
    target = msgspec.structs.replace(
        TARGET, headers=(("X", " 1 "), ("Connection", "keep-alive"), ("Content-Length", "5"))
    )
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
    assert len(lines(msgspec.structs.replace(TARGET, path=path))) == len(lines(TARGET))


@pytest.mark.parametrize(
    ("status", "location", "following"),
    [
        (200, "/b", None),
        (304, "/b", None),
        (302, "", None),
        (302, "/b?c#d", msgspec.structs.replace(TARGET, path="/b?c")),
        (301, "b", msgspec.structs.replace(TARGET, path="/b")),
        (308, "https://10.0.0.9/b", msgspec.structs.replace(TARGET, scheme="https", port=443, path="/b")),
        (302, "http://10.0.0.9:81", msgspec.structs.replace(TARGET, port=81, path="")),
        (302, "http://elsewhere:8080/", None),
        (302, "ftp://10.0.0.9/", None),
        (302, "http://10.0.0.9:x/", None),
    ],
)
def test_redirects_are_followed_on_the_same_host_only(status: int, location: str, following: HttpTarget | None) -> None:
    assert redirected(TARGET, ResponseHead(status, {"location": location})) == following


def test_a_host_is_the_same_in_capitals() -> None:
    target = msgspec.structs.replace(TARGET, host="Web.Local")
    assert redirected(target, ResponseHead(302, {"location": "http://WEB.local:8080/x"})) == msgspec.structs.replace(
        target, path="/x"
    )
