"""The request of a connection, and the messages of a WebSocket that it becomes."""

import socket
from threading import Semaphore
from typing import cast
from unittest.mock import Mock

import pytest

from beehive import Clock
from beehive.http.server import RequestHead
from modules.runtimes.streaming import connection as connection_module
from modules.runtimes.streaming.channels import ChannelData, StreamChannel, WebSocketChannels
from modules.runtimes.streaming.connection import (
    HEAD_SECONDS,
    StreamingConnection,
    UpgradeError,
    _web_socket_answer,
    check_upgrade,
)
from modules.runtimes.streaming.link import SocketLink
from modules.runtimes.streaming.port_streams import PortData, WebSocketPorts
from modules.runtimes.streaming.requests import StreamRequest, WaitingRequests
from modules.runtimes.streaming.web_socket import WebSocketLink
from tests.support.clocks import StandingClock
from tests.support.failing import Failing

_KEY = "AAAAAAAAAAAAAAAAAAAAAA=="


def _head(method: str = "GET", **headers: str) -> RequestHead:
    return RequestHead(method, "/", tuple((name.replace("_", "-"), value) for name, value in headers.items()), "1.1")


def test_streams_begin_with_get_or_post() -> None:
    for method in ("GET", "POST"):
        check_upgrade(_head(method, upgrade="SPDY/3.1"))
    for method in ("PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
        with pytest.raises(UpgradeError) as refused:
            check_upgrade(_head(method, upgrade="SPDY/3.1"))
        assert refused.value.status == 405


@pytest.mark.parametrize(
    ("method", "key", "version"),
    [("GET", "AAAA", "13"), ("GET", "no base64", "13"), ("GET", "", "13"), ("GET", _KEY, "12"), ("POST", _KEY, "13")],
)
def test_what_is_no_handshake_of_a_web_socket_is_refused(method: str, key: str, version: str) -> None:
    with pytest.raises(UpgradeError, match="no handshake"):
        _web_socket_answer(_head(method, sec_websocket_key=key, sec_websocket_version=version), "v4.channel.k8s.io")


@pytest.mark.parametrize("offered", [{}, {"sec_websocket_protocol": "v4.channel.k8s.io"}])
def test_a_protocol_is_named_to_a_client_that_offers_some(offered: dict[str, str]) -> None:
    """A browser gives up a connection whose answer names another one (RFC 6455 §4.1)."""
    answer = _web_socket_answer(_head(sec_websocket_key=_KEY, sec_websocket_version="13", **offered), "v4.channel")
    assert ("sec-websocket-protocol" in dict(answer)) == bool(offered)


def test_a_request_that_does_not_come_whole_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte begins no time of its own."""
    clock, waits = StandingClock(), Mock()
    monkeypatch.setattr(connection_module, "linger", waits)

    def receive(_: int) -> bytes:
        clock.go(HEAD_SECONDS / 2)
        return b"G"

    connection = Mock(recv=receive)
    StreamingConnection(connection, Mock(), Mock(), cast("Clock", clock), Semaphore(1)).serve()
    waits.assert_called_once()
    assert connection.sendall.call_args.args[0].startswith(b"HTTP/1.1 408 ")
    assert [call.args[0] for call in connection.settimeout.call_args_list] == [10, 5, HEAD_SECONDS]


def test_an_address_that_was_given_out_begins_a_stream_and_a_refusal_waits_for_its_reader() -> None:
    clock, began = cast("Clock", StandingClock()), Mock()
    waiting = WaitingRequests(clock)
    token = waiting.add(StreamRequest("exec", "c", stdout=True))
    ours, client = socket.socketpair()
    with ours, client:
        lines = [f"GET /exec/{token} HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        client.sendall("\r\n".join([*lines, "X-Stream-Protocol-Version: v9", "", ""]).encode())
        StreamingConnection(ours, waiting, Mock(), clock, Semaphore(1), began).serve()
        assert client.recv(100).startswith(b"HTTP/1.1 403 ")
        assert ours.gettimeout() == HEAD_SECONDS
    began.assert_called_once_with()


@pytest.mark.parametrize("bytes_", [b"\x82\x84\0\0\0\0last\x88\x80\0\0\0\0", b"\x82\x84\0\0\0\0last\xff\xff"])
def test_the_last_message_comes_before_the_end_that_came_with_it(bytes_: bytes) -> None:
    """In order, or with what is no frame."""
    before = b"\x82\x81\0\0\0\0a\x02\x81\0\0\0\0b\x80\x81\0\0\0\0c"
    link = Mock(receive=Mock(side_effect=[before, bytes_, b""]))
    messages = WebSocketLink(link, "v4.channel.k8s.io")
    assert [messages.receive() for _ in range(3)] == [[b"a", b"bc"], [b"last"], None]


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), OSError(113, "No route to host")])
def test_a_connection_that_fails_has_ended(error: OSError) -> None:
    link = SocketLink(Mock(recv=Failing(0, error).call(print)))
    assert link.receive() is None


def test_a_web_socket_takes_and_gives_what_was_asked_for() -> None:
    """A client that asked for output only has no input, and no errors."""
    messages = Mock(subprotocol="v4.channel.k8s.io")
    channels = WebSocketChannels(messages, StreamRequest("exec", "c", stdout=True))
    messages.queue.reset_mock()
    assert [channels._event(each) for each in (b"\0in", b"\4{}", b"\1out", b"\7")] == [None] * 4
    channels.write(StreamChannel.STDERR, b"errors")
    messages.queue.assert_not_called()
    with_input = WebSocketChannels(messages, StreamRequest("exec", "c", stdin=True))
    assert with_input._event(b"\0in") == ChannelData(StreamChannel.STDIN, b"in")


def test_the_channel_of_errors_takes_no_bytes_for_a_port() -> None:
    messages = Mock(receive=lambda: [b"\0a", b"\1b", b"\2c", b"\2", b"\3"])
    ports = WebSocketPorts(cast("WebSocketLink", messages), (80, 81))
    assert len(ports.receive() or []) == 2, "they are opened first"
    assert ports.receive() == [PortData(0, b"a"), PortData(1, b"c")]


@pytest.mark.parametrize("forgets", ["add", "pop"])
def test_an_address_is_as_long_as_it_is_said_and_for_a_minute(forgets: str) -> None:
    """Nobody guesses it, and nobody uses it later."""
    clock, request = StandingClock(), StreamRequest("exec", "c")
    waiting = WaitingRequests(cast("Clock", clock))
    tokens = [waiting.add(request) for _ in range(20)]
    assert max(int(each, 16) for each in tokens).bit_length() > 248
    clock.go(60)
    if forgets == "add":
        waiting.add(request)
        assert len(waiting._waiting) == 1
    else:
        assert waiting.pop("exec", tokens[0]) is None
        assert not waiting._waiting
