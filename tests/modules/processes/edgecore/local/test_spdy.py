"""Frames of SPDY/3.1, and a command's streams over them."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.processes.edgecore.local.channels import Channel, CommandExit
from modules.processes.edgecore.local.errors import NodeError
from modules.processes.edgecore.local.spdy import (
    ConnectionEnd,
    SpdyConnection,
    SpdyError,
    SpdyEvent,
    StreamData,
    StreamEnd,
)
from modules.processes.edgecore.local.spdy_link import COMMAND, SpdyCommand, SpdyLink
from tests.modules.processes.edgecore.local.spdy_server import (
    SUCCESS,
    SpdyPeer,
    SpdySocket,
    accept_streams,
    run_commands,
)


def data(stream: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(content)) + content


def control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(content)) + content


FRAMES = (
    control(2, struct.pack(">I", 1) + b"\xff\xff") + data(1, b"one") + data(3, b"", 1) + data(1, b"two", 1)
    + control(4, b"\0" * 4) + control(2, struct.pack(">I", 5), 1) + control(3, struct.pack(">II", 7, 1))
    + control(7, struct.pack(">II", 7, 0))
)  # fmt: skip
EVENTS: list[SpdyEvent] = [
    StreamData(1, b"one"), StreamEnd(3), StreamData(1, b"two"), StreamEnd(1), StreamEnd(5),
    StreamEnd(7, reset=True), ConnectionEnd(),
]  # fmt: skip


def opened(streams: int) -> SpdyConnection:
    """With so many open streams."""
    connection = SpdyConnection()
    for _ in range(streams):
        connection.open_stream({"streamtype": "data"})
    connection.unsent.clear()
    return connection


def joined(events: list[SpdyEvent]) -> list[SpdyEvent]:
    """With the pieces of one stream's data in one."""
    found: list[SpdyEvent] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, StreamData) and isinstance(last, StreamData) and last.stream == event.stream:
            found[-1] = StreamData(event.stream, last.data + event.data)
        else:
            found.append(event)
    return found


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_frames_may_arrive_in_any_pieces(step: int) -> None:
    connection = opened(2)
    found: list[SpdyEvent] = []
    for at in range(0, len(FRAMES), step):
        found += connection.receive(FRAMES[at : at + step])
    assert joined(found) == EVENTS
    assert not connection.unsent


def test_a_ping_is_answered_and_a_stream_of_the_server_is_refused() -> None:
    connection = SpdyConnection()
    assert not list(connection.receive(control(6, struct.pack(">I", 2)) + control(6, struct.pack(">I", 1))))
    assert bytes(connection.unsent) == control(6, struct.pack(">I", 2))
    connection.unsent.clear()
    assert not list(connection.receive(control(1, struct.pack(">IIH", 2, 0, 0))))
    assert bytes(connection.unsent) == control(3, struct.pack(">II", 2, 5))


@pytest.mark.parametrize(
    "frames",
    [
        b"HTTP/1.1 400",
        data(5, b"x"),
        data(2, b"x"),
        struct.pack(">HHI", 0x8002, 2, 4),
        struct.pack(">HHI", 0x8003, 2, 1 << 20),
        control(6, b"\0"),
    ],
)
def test_what_is_not_spdy_is_said(frames: bytes) -> None:
    with pytest.raises(SpdyError):
        list(opened(2).receive(frames))


def test_streams_are_opened_as_a_server_reads_them() -> None:
    """Header blocks are compressed over all frames of the connection."""
    here, there = socket.socketpair()
    with here, there:
        connection = SpdyConnection()
        ids = [connection.open_stream({"streamtype": f"s{n}", "port": "80"}, ended=n == 1) for n in range(3)]
        connection.send(ids[0], b"x" * 40_000, last=True)
        here.sendall(connection.unsent)
        peer = SpdyPeer(there)
        frames = [peer.read() for _ in range(5)]
    assert ids == [1, 3, 5]
    assert [each and (each.kind, each.stream, each.flags) for each in frames] == [
        (1, 1, 0), (1, 3, 1), (1, 5, 0), (0, 1, 0), (0, 1, 1),
    ]  # fmt: skip
    assert frames[2] is not None and frames[2].headers == {"streamtype": "s2", "port": "80"}


def test_answers_do_not_pile_up() -> None:
    connection = SpdyConnection()
    with pytest.raises(SpdyError, match="more answers than it takes"):
        for _ in range(1 << 10):
            list(connection.receive(control(6, struct.pack(">I", 2)) * 100))


def test_streams_are_limited() -> None:
    connection = SpdyConnection()
    with pytest.raises(SpdyError, match="too many"):
        for _ in range(20_000):
            connection.open_stream({"streamtype": "data"})


class Output:
    """What came on which channel."""

    def __init__(self) -> None:
        self.bytes = {Channel.STDOUT: b"", Channel.STDERR: b""}

    def __call__(self, channel: Channel, piece: bytes) -> None:
        self.bytes[channel] += piece


def run(path: Path, *command: str, given: bytes | None = None) -> tuple[CommandExit, Output]:
    """Run a command over a socket, with input that ends."""
    query = "&".join([*(f"command={word}" for word in command), *(["input=1"] if given is not None else [])])
    link, output = SpdyLink(path, f"/exec/ns/p/app?{query}", COMMAND), Output()
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(given or b"")

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        return SpdyCommand(link, output, reading if given is not None else None).run(), output
    finally:
        link.close()
        os.close(reading)
        feeder.join()


def test_a_command_reads_its_input_to_the_end(tmp_path: Path) -> None:
    """More than any buffer holds, both ways."""
    given = os.urandom(1 << 20) * 3
    with SpdySocket(tmp_path / "s", run_commands):
        result, output = run(tmp_path / "s", "cat", given=given)
        assert (result, output.bytes[Channel.STDOUT] == given) == (CommandExit(0), True)
        assert run(tmp_path / "s", "cat", given=b"")[0] == CommandExit(0)


def test_exit_status_and_errors(tmp_path: Path) -> None:
    with SpdySocket(tmp_path / "s", run_commands):
        result, output = run(tmp_path / "s", "ls", "/no-such-path")
    assert (result.problem, b"no-such-path" in output.bytes[Channel.STDERR]) == ("", True)
    assert result.code


def _breaks_off(connection: socket.socket, _target: str) -> None:
    peer = SpdyPeer(connection)
    accept_streams(peer, 3)
    peer.data("stdout", b"half")


def _is_no_spdy(connection: socket.socket, _target: str) -> None:
    connection.sendall(b"HTTP/1.1 200 what?\r\n\r\n")
    connection.recv(100)


def _resets_input(connection: socket.socket, _target: str) -> None:
    peer = SpdyPeer(connection)
    accept_streams(peer, 4)
    peer.control(3, struct.pack(">II", peer.streams["stdin"], 1))
    peer.data("error", SUCCESS)
    peer.control(7, struct.pack(">II", 0, 0))


def test_a_connection_that_ends_early_is_no_success(tmp_path: Path) -> None:
    with SpdySocket(tmp_path / "s", _breaks_off):
        result, output = run(tmp_path / "s", "x")
    assert (result.code, "before the command" in result.problem, output.bytes[Channel.STDOUT]) == (1, True, b"half")


def test_an_input_that_nobody_takes_does_not_hinder_the_end(tmp_path: Path) -> None:
    with SpdySocket(tmp_path / "s", _resets_input):
        assert run(tmp_path / "s", "x", given=b"")[0] == CommandExit(0)


@pytest.mark.parametrize(
    ("behaviour", "refusal", "says"),
    [
        (_is_no_spdy, b"", "cannot be read"),
        (run_commands, b"HTTP/1.1 501 No\r\nContent-Length: 8\r\n\r\nno streams", "no strea"),
        (run_commands, b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", "status 400"),
        (run_commands, b"SSH-2.0\r\n", "broke off"),
        (run_commands, b"HTTP/1.1 1", "broke off"),
    ],
)
def test_what_a_server_may_do_wrong_is_said(
    tmp_path: Path, behaviour: Callable[[socket.socket, str], None], refusal: bytes, says: str
) -> None:
    with SpdySocket(tmp_path / "s", behaviour, refusal), pytest.raises(NodeError, match=says) as error:
        run(tmp_path / "s", "x")
    assert error.value.status == (int(refusal.split()[1]) if b" No" in refusal else 0)
