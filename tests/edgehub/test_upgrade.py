"""The upgrade: what is asked, word for word, and which answers are agreements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.http11 import Request
from websockets.server import ServerProtocol

from edgehub.errors import EdgeHubError, SettingsError, UpgradeError
from edgehub.upgrade import LONGEST_ANSWER, Target, Upgrade

HEADERS = {"node_id": "edge-1", "project_id": "p", "ConnectionUse": "msg"}


def accepting() -> tuple[Upgrade, bytes]:
    """An upgrade and the answer of the `websockets` server to its request."""
    upgrade = Upgrade(Target.parse("ws://127.0.0.1:10000/p/edge-1/events"), HEADERS)
    server = ServerProtocol()
    server.receive_data(upgrade.request())
    (request,) = server.events_received()
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    return upgrade, b"".join(server.data_to_send())


def test_the_request_has_the_headers_that_the_cloud_expects_and_no_others() -> None:
    """docs/protocol.md, "Handshake": the three headers; no Origin, no extensions, no subprotocol."""
    upgrade = Upgrade(Target.parse("ws://cloud.example:10000/p/edge-1/events"), HEADERS)
    first, *lines = upgrade.request().decode().split("\r\n")
    assert first == "GET /p/edge-1/events HTTP/1.1"
    assert lines[-2:] == ["", ""]
    headers = dict(line.split(": ", 1) for line in lines[:-2])
    key = headers.pop("Sec-WebSocket-Key")
    assert len(key) == 24
    assert headers == {
        "Host": "cloud.example:10000",
        "User-Agent": "edgecore",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        **HEADERS,
    }


def test_the_answer_of_another_implementation_is_an_agreement() -> None:
    """The answer of `websockets`."""
    upgrade, answer = accepting()
    assert upgrade.feed(answer) == b""
    upgrade, answer = accepting()
    several = answer.replace(b"Connection: Upgrade", b"Connection: Upgrade\r\nConnection: keep-alive")
    assert upgrade.feed(several) == b""


def test_no_two_requests_have_one_key() -> None:
    """A proxy could answer with what it has kept."""
    assert len({accepting()[0].request() for _ in range(3)}) == 3


@given(st.lists(st.integers(0, 60), max_size=20))
def test_the_answer_may_come_in_pieces_and_with_frames_behind(sizes: list[int]) -> None:
    """What comes behind it belongs to the frames."""
    upgrade, answer = accepting()
    rest: bytes | None = None
    data, start = answer + b"\x81\x02{}", 0
    for size in [*sizes, len(data)]:
        piece, start = data[start : start + size], start + size
        if rest is None:
            rest = upgrade.feed(piece)
        else:
            rest += piece
    assert rest == b"\x81\x02{}"


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ((b"101 Switching Protocols", b"401 Unauthorized"), "401 Unauthorized.*refuses this node"),
        ((b"101 Switching Protocols", b"403 Forbidden"), "403 Forbidden.*refuses this node"),
        *(((b"101 Switching Protocols", b"%d Go" % status), "redirects are not") for status in (301, 302, 307, 308)),
        ((b"101 Switching Protocols", b"502 Bad Gateway"), "may be starting"),
        ((b"Sec-WebSocket-Accept: ", b"Sec-WebSocket-Accept: x"), "does not match"),
        ((b"Upgrade: websocket", b"Upgrade: h2c"), "without an upgrade"),
        ((b"Connection: Upgrade", b"Connection: close"), "without an upgrade"),
        ((b"HTTP/1.1 101", b"SSH-2.0-OpenSSH"), "not an HTTP answer"),
        ((b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), "not offered"),
        ((b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: x\r\n\r\n"), "not offered"),
        ((b"Sec-WebSocket-Accept: ", b"X-Accept: "), "does not match"),
    ],
)
def test_any_other_answer_is_refused_with_its_reason(change: tuple[bytes, bytes], about: str) -> None:
    """The error names the fault."""
    upgrade, answer = accepting()
    with pytest.raises(UpgradeError, match=about):
        upgrade.feed(answer.replace(*change, 1))


def test_a_refusal_carries_the_clouds_status_and_text() -> None:
    """KubeEdge's cloud explains itself in the body."""
    upgrade, _ = accepting()
    with pytest.raises(UpgradeError, match="node limit reached") as caught:
        upgrade.feed(b"HTTP/1.1 429 Too Many Requests\r\n\r\nnode limit reached\n")
    assert caught.value.status == 429
    assert caught.value.retryable


@pytest.mark.parametrize("status", [401, 403])
def test_a_node_that_is_refused_is_told_so_whatever_the_words_are(status: int) -> None:
    upgrade, _ = accepting()
    with pytest.raises(UpgradeError, match="refuses this node") as caught:
        upgrade.feed(b"HTTP/1.1 %d No\r\n\r\n\xff" % status)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\0\x02\x02\x46",
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    ],
    ids=["alert", "Go"],
)
def test_a_server_of_tls_is_known_by_its_answer_to_a_plain_request(answer: bytes) -> None:
    """And the error names the remedy."""
    upgrade, _ = accepting()
    with pytest.raises(UpgradeError, match=r"speaks TLS, and this node does not.*wss://"):
        upgrade.feed(answer)
    assert "wss://" in upgrade.closed_hint


def test_an_endless_answer_is_given_up() -> None:
    """It is not read into memory."""
    upgrade, _ = accepting()
    with pytest.raises(UpgradeError, match="no end"):
        for _ in range(LONGEST_ANSWER // 100 + 2):
            upgrade.feed(b"X-Filler: " + b"x" * 90)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("ws://127.0.0.1:10000/p/n/events", Target(False, "127.0.0.1", 10000, "/p/n/events")),  # noqa: FBT003
        ("wss://cloud/p", Target(True, "cloud", 443, "/p")),  # noqa: FBT003
        ("ws://cloud", Target(False, "cloud", 80, "/")),  # noqa: FBT003
        (f"ws://{'a' * 63}.example./", Target(False, f"{'a' * 63}.example.", 80, "/")),  # noqa: FBT003
        (f"ws://cloud.{'a' * 63}", Target(False, f"cloud.{'a' * 63}", 80, "/")),  # noqa: FBT003
        ("ws://[::1]:10000/x?y=1", Target(False, "::1", 10000, "/x?y=1")),  # noqa: FBT003
    ],
)
def test_a_url_has_the_address_to_dial(url: str, target: Target) -> None:
    """Plain or TLS, host, port, path."""
    assert Target.parse(url) == target


def test_an_address_of_version_six_keeps_its_brackets() -> None:
    """In the Host header."""
    assert str(Target.parse("ws://[::1]:10000/x")) == "[::1]:10000"


@pytest.mark.parametrize(
    "url",
    [
        "", "cloud:10000", "http://cloud/", "ws:///x", "ws://cloud:port/", "ws://u:p@cloud/", "ws://cloud/\r\nX: y",
        "ws://cloud..example/", f"ws://{'a' * 64}.example/", f"ws://cloud.{'a' * 64}/", "ws://wölke/",
    ],
)  # fmt: skip
def test_other_urls_are_refused_before_anything_is_dialled(url: str) -> None:
    """With the form that is wanted."""
    with pytest.raises(SettingsError):
        Target.parse(url)


@pytest.mark.parametrize("node", ["a\r\nX-Evil: 1", "ä"])
def test_a_header_that_would_break_the_request_is_refused(node: str) -> None:
    """A node's name comes from a file."""
    with pytest.raises(EdgeHubError, match="cannot send the header"):
        Upgrade(Target.parse("ws://cloud/"), {"node_id": node})
