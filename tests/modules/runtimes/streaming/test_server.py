"""Addresses, versions and channels of the streaming server."""

import base64
import json

import pytest
from websockets.frames import Opcode

from modules.runtimes.streaming import StreamingServer
from modules.runtimes.streaming.channels import PINGS
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.streaming.backend import LocalBackend
from tests.modules.runtimes.streaming.clients import (
    SPDY,
    SocketClient,
    SpdyClient,
    connected,
    echo_request,
    head_of,
    path,
)
from tests.support.patience import PATIENCE


def asked(url: str, *headers: str, method: str = "POST") -> bytes:
    """Send a request and return the head of the answer."""
    with connected(url) as connection:
        connection.sendall("\r\n".join([f"{method} {path(url)} HTTP/1.1", "Host: x", *headers, "", ""]).encode())
        return head_of(connection)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Content-Length: 0",), b"400"),
        (("Connection: Upgrade", "Upgrade: h2c"), b"400"),
        ((*SPDY, "X-Stream-Protocol-Version: v9.channel.k8s.io"), b"403"),
        (("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"), b"400"),
        (("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: y"), b"403"),
        (
            (
                "Connection: Upgrade",
                "Upgrade: websocket",
                "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            ),
            b"400",  # by POST
        ),
        (("X: " + "x" * 20_000,), b"431"),
        (("no header",), b"400"),
    ],
)
def test_other_requests_are_answered(server: StreamingServer, headers: tuple[str, ...], status: bytes) -> None:
    """With a status that says why."""
    assert asked(server.exec_url(echo_request()), *headers).startswith(b"HTTP/1.1 " + status)


def test_the_refusal_of_a_client_that_sends_on_can_be_read(
    server: StreamingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would reset a connection that is closed with unread bytes, with what the client has not read."""
    monkeypatch.setattr("beehive.http.lingering_close.LINGERING_SECONDS", PATIENCE)
    url = server.exec_url(echo_request())
    with connected(url) as connection:
        connection.sendall(f"POST {path(url)} HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n".encode())
        connection.sendall(b"x" * 4_000_000)
        assert head_of(connection).startswith(b"HTTP/1.1 400")


def test_unknown_addresses_are_not_found(server: StreamingServer) -> None:
    """Also used ones, and another kind's."""
    url = server.exec_url(echo_request())
    for wrong in (url[:-1] + ("0" if url[-1] != "0" else "1"), url.replace("/exec/", "/attach/"), url + "/x"):
        assert asked(wrong, *SPDY).startswith(b"HTTP/1.1 404")
    assert asked(url, *SPDY).startswith(b"HTTP/1.1 101")
    assert asked(url, *SPDY).startswith(b"HTTP/1.1 404")
    assert asked(server.exec_url(echo_request()), *SPDY, method="PUT").startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v4.channel.k8s.io", "v3.channel.k8s.io"], "v4.channel.k8s.io"),
        (["channel.k8s.io, v2.channel.k8s.io"], "v2.channel.k8s.io"),
        (["channel.k8s.io"], "channel.k8s.io"),
        ([], "channel.k8s.io"),
    ],
)
def test_versions_of_spdy(server: StreamingServer, offered: list[str], chosen: str) -> None:
    """The latest that both speak; before version 4 a success says nothing."""
    url = server.exec_url(echo_request())
    with connected(url) as connection:
        client = SpdyClient(connection, url, *offered)
        assert f"x-stream-protocol-version: {chosen}\r\n" in client.head
        error, output = client.open("error", "stdout")
        texts = client.texts()
    assert texts[output] == b"hello"
    assert (error in texts) == (chosen[1] == "4")


def test_failures_have_an_exit_code(server: StreamingServer) -> None:
    """As a Status, or as a text before version 4."""
    for version in ("v4.channel.k8s.io", "v3.channel.k8s.io"):
        url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["sh", "-c", "exit 5"], stdout=True))
        with connected(url) as connection:
            client = SpdyClient(connection, url, version)
            error, _ = client.open("error", "stdout")
            said = client.texts()[error]
        if version[1] == "4":
            assert json.loads(said)["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]
        else:
            assert said == b"command terminated with non-zero exit code: 5"


@pytest.mark.parametrize(
    "protocol",
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io", "",
     "base64.channel.k8s.io", "v4.base64.channel.k8s.io"],
)  # fmt: skip
def test_versions_of_web_socket(server: StreamingServer, protocol: str) -> None:
    """Up to version 4 each begins with an empty message on the lowest channel of output; kubectl, which speaks version
    5, may have no such channel yet.
    """
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["cat"], stdin=True, stdout=True))
    is_base64, has_status = "base64" in protocol, protocol[:2] in ("v4", "v5")
    with connected(url) as connection:
        client = SocketClient(connection, url, *([protocol] if protocol else []))
        assert client.head.startswith("HTTP/1.1 101")
        assert (f"sec-websocket-protocol: {protocol}\r\n" in client.head) == bool(protocol)
        client.send(b"0" + base64.b64encode(b"hello") if is_base64 else b"\0hello")
        if protocol.startswith("v5"):
            client.send(b"\xff\0")
        found = []
        for message in client.messages():
            channel = message[0] - 48 if is_base64 else message[0]
            found.append((channel, base64.b64decode(message[1:]) if is_base64 else message[1:]))
            if found[-1] == (1, b"hello") and not protocol.startswith("v5"):
                break
    if protocol.startswith("v5"):
        assert found[0] == (1, b"hello")
        assert json.loads(found[1][1])["status"] == "Success"
    else:
        assert found == [(1, b""), (1, b"hello")]
    assert has_status or len(found) == 2


def test_nothing_is_sent_before_kubectl_has_made_its_channels(server: StreamingServer) -> None:
    """kubectl discards what comes earlier, and would end without the error and with 0."""
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["/no/such/program"], stdout=True))
    with connected(url) as connection:
        client = SocketClient(connection, url, "v5.channel.k8s.io")
        client.protocol.send_ping(b"mine")
        client.flush()
        frames = client.frames()
        assert {next(frames).opcode, next(frames).opcode} == {Opcode.PING, Opcode.PONG}
        for _ in range(PINGS - 1):
            client.flush()
            assert next(frames).opcode is Opcode.PING
        client.flush()
        result = next(frames)
    assert (result.opcode, result.data[0], b"/no/such/program" in result.data) == (Opcode.BINARY, 3, True)


def test_attach_is_resized_and_its_input_ends(server: StreamingServer, backend: LocalBackend) -> None:
    """Sizes come in any pieces; wrong ones are nothing."""
    url = server.attach_url(cri.AttachRequest(container_id="c", stdout=True, stdin=True, tty=True))
    with connected(url) as connection:
        client = SpdyClient(connection, url, "v4.channel.k8s.io")
        _, stdin, _, resize = client.open("error", "stdin", "stdout", "resize")
        for piece in (b'{"Width":80,"Hei', b'ght":24}\n{"Width":0,"Height":1}', b"x}", b'{"Width":90,"Height":70000}',
                      b"y" * 10_000, b'}{"Width" : 5, "Height" : 6 }'):  # fmt: skip
            client.spdy.send(resize, piece)
        client.spdy.send(stdin, b"bye", last=True)
        client.flush()
        assert backend.conmon.container.recv(100) == b"bye"
        assert backend.conmon.container.recv(100) == b""
        backend.conmon.container.send(b"\x02see you")
        backend.conmon.container.close()
        assert b"see you" in client.texts().values()
    assert backend.conmon.sizes == [(80, 24), (5, 6)]
