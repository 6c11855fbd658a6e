"""Requests of streams: what is refused, and for how long an address works."""

import socket
from threading import Semaphore
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.simulation.scheduler import Scheduler
from modules.runtimes.engine.errors import BadRequestError, TooManyError
from modules.runtimes.streaming import StreamingServer
from modules.runtimes.streaming.channels import StreamChannel, WebSocketChannels
from modules.runtimes.streaming.connection import StreamingConnection
from modules.runtimes.streaming.requests import MOST_WAITING, VALID_SECONDS, StreamRequest, WaitingRequests
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.streaming.backend import LocalBackend


@pytest.mark.parametrize(
    "request_",
    [
        cri.ExecRequest(container_id="c", cmd=["a"], tty=True, stderr=True, stdout=True),
        cri.ExecRequest(container_id="c", cmd=["a"]),
        cri.ExecRequest(container_id="c", stdout=True),
        cri.ExecRequest(cmd=["a"], stdout=True),
    ],
)
def test_wrong_commands_are_refused(server: StreamingServer, request_: cri.ExecRequest) -> None:
    """As CRI says: no terminal with errors, at least one stream."""
    with pytest.raises(BadRequestError):
        server.exec_url(request_)


def test_wrong_attachments_and_ports_are_refused(server: StreamingServer) -> None:
    """By the same rules."""
    for attach in (cri.AttachRequest(container_id="c"), cri.AttachRequest(stdout=True)):
        with pytest.raises(BadRequestError):
            server.attach_url(attach)
    for ports in ([0], [70_000], [1] * 33):
        with pytest.raises(BadRequestError):
            server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s", port=ports))
    with pytest.raises(BadRequestError):
        server.port_forward_url(cri.PortForwardRequest())


def test_an_address_works_once_within_a_minute() -> None:
    """A thousand may wait; abandoned ones are forgotten."""
    scheduler = Scheduler(0)
    waiting = WaitingRequests(scheduler.clock)
    request = StreamRequest("exec", "c")
    token = waiting.add(request)
    assert waiting.pop("attach", token) is None
    assert waiting.pop("exec", token) == request
    assert waiting.pop("exec", token) is None
    tokens = {waiting.add(request) for _ in range(MOST_WAITING)}
    assert len(tokens) == MOST_WAITING
    with pytest.raises(TooManyError):
        waiting.add(request)
    scheduler.clock.after(VALID_SECONDS, lambda: None)
    scheduler.run_for(VALID_SECONDS)
    waiting.add(request)
    assert waiting.pop("exec", tokens.pop()) is None


def test_an_address_that_is_not_known_takes_no_place_of_a_stream(backend: LocalBackend) -> None:
    """Anybody on this machine may ask for one."""
    clock, began = Scheduler(0).clock, list[bool]()
    ours, client = socket.socketpair()
    with ours, client:
        client.sendall(b"GET /exec/guessed HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        waiting = WaitingRequests(clock)
        StreamingConnection(ours, waiting, backend, clock, Semaphore(1), lambda: began.append(True)).serve()
        assert client.recv(100).startswith(b"HTTP/1.1 404 ")
    assert began == []


def test_a_message_of_a_web_socket_is_not_long() -> None:
    """A client may read no longer ones; the bytes stay in order."""
    sent = list[bytes]()
    messages: Any = SimpleNamespace(queue=sent.append, subprotocol="v4.channel.k8s.io", link=None)
    made = WebSocketChannels(messages, StreamRequest("exec", "c", stdout=True))
    sent.clear()
    data = bytes(range(256)) * 1024
    made.write(StreamChannel.STDOUT, data)
    assert b"".join(each[1:] for each in sent) == data
    assert max(map(len, sent)) <= 64 * 1024 + 1
