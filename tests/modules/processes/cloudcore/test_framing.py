"""Frames over the control socket."""

import socket
import struct
from collections.abc import Iterator

import pytest

from modules.processes.cloudcore.framing import MAX_FRAME, ControlError, ControlRequest, receive_frame, send_frame


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(10)
        other.settimeout(10)
        yield one, other


Pair = tuple[socket.socket, socket.socket]


def test_what_is_sent_is_received(pair: Pair) -> None:
    call = ControlRequest("get", {"kind": "pods", "name": "é" * 10_000})
    send_frame(pair[0], call)
    assert receive_frame(pair[1], ControlRequest) == call


def test_the_end_before_a_frame_is_no_error(pair: Pair) -> None:
    pair[0].close()
    assert receive_frame(pair[1], ControlRequest) is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">I", 10) + b"{}", id="cut off"),
        pytest.param(b"\0\0", id="cut off in the length"),
        pytest.param(struct.pack(">I", MAX_FRAME + 1), id="too long"),
        pytest.param(struct.pack(">I", 2) + b"[]", id="of another type"),
        pytest.param(struct.pack(">I", 3) + b"{{{", id="not JSON"),
    ],
)
def test_a_bad_frame_is_refused(pair: Pair, data: bytes) -> None:
    pair[0].sendall(data)
    pair[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ControlError):
        receive_frame(pair[1], ControlRequest)
