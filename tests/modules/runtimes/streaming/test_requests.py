"""Requests of streams: what is refused, and for how long an address works."""

import pytest

from beehive.simulation.scheduler import Scheduler
from modules.runtimes.engine.errors import BadRequestError, TooManyError
from modules.runtimes.streaming import StreamingServer
from modules.runtimes.streaming.requests import MOST_WAITING, VALID_SECONDS, StreamRequest, WaitingRequests
from protos.cri.v1 import api_pb2 as cri


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
