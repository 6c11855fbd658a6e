"""A command's streams over SPDY."""

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from beehive.http.spdy import StreamEnd
from modules.processes.common.pod_commands.channels import Channel, CommandExit
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.spdy_link import COMMAND, SizedTerminal, SpdyCommand, SpdyLink
from tests.modules.processes.common.pod_commands.outputs import Output
from tests.modules.processes.common.pod_commands.spdy_server import (
    SUCCESS,
    SpdyPeer,
    SpdySocket,
    accept_streams,
    run_commands,
)


def run(path: Path, *command: str, given: bytes | None = None) -> tuple[CommandExit, Output]:
    """Run a command over a socket, with input that ends."""
    query = "&".join([*(f"command={word}" for word in command), *(["input=1"] if given is not None else [])])
    link, output = SpdyLink(NodeClient(path), f"/exec/ns/p/app?{query}", COMMAND), Output()
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
def test_mistakes_of_a_server_are_reported(
    tmp_path: Path, behaviour: Callable[[socket.socket, str], None], refusal: bytes, says: str
) -> None:
    with SpdySocket(tmp_path / "s", behaviour, refusal), pytest.raises(NodeError, match=says) as error:
        run(tmp_path / "s", "x")
    assert error.value.status == (int(refusal.split()[1]) if b" No" in refusal else 0)


def converse(path: Path, source: int, terminal: SizedTerminal) -> CommandExit:
    """Run a command with a terminal."""
    with closing(SpdyLink(NodeClient(path), "/exec/ns/p/app?command=x", COMMAND)) as link:
        return SpdyCommand(link, Output(), source, terminal).run()


def _end(peer: SpdyPeer) -> None:
    peer.data("error", SUCCESS)
    peer.control(7, struct.pack(">II", 0, 0))


def _heard(peer: SpdyPeer) -> tuple[str, bytes]:
    """The next bytes of the client, with the stream's type; b"" is the end of the stream."""
    frame = peer.read()
    assert frame is not None and frame.kind == 0
    return {stream: kind for kind, stream in peer.streams.items()}[frame.stream], frame.content


def test_a_changed_size_is_sent_once_and_before_keys(tmp_path: Path) -> None:
    """The kernel may report keys that were typed after the change before the signal is handled."""
    heard: list[tuple[str, bytes]] = []

    def behave(connection: socket.socket, _target: str) -> None:
        peer = SpdyPeer(connection)
        accept_streams(peer, 4)
        heard.extend(_heard(peer) for _ in range(2))
        os.write(keys, b"x")
        heard.extend(_heard(peer) for _ in range(2))
        os.write(resizing, b"\x1c")
        os.write(keys, b"y")
        heard.append(_heard(peer))
        _end(peer)

    reading, keys = os.pipe()
    resized, resizing = os.pipe()
    os.write(keys, b"w")
    sizes = iter([(91, 24), (91, 24), (57, 24)])
    with SpdySocket(tmp_path / "s", behave):
        assert converse(tmp_path / "s", reading, SizedTerminal(resized, lambda: next(sizes, (57, 24)))) == CommandExit(
            0
        )
    for descriptor in (reading, keys, resized, resizing):
        os.close(descriptor)
    small, large = b'{"Width":57,"Height":24}', b'{"Width":91,"Height":24}'
    assert heard == [("resize", large), ("stdin", b"w"), ("resize", small), ("stdin", b"x"), ("stdin", b"y")]


def test_the_input_of_a_terminal_that_is_gone_ends(tmp_path: Path) -> None:
    """It has no size any more, which is no failure of the command."""
    heard: list[tuple[str, bytes]] = []

    def behave(connection: socket.socket, _target: str) -> None:
        peer = SpdyPeer(connection)
        accept_streams(peer, 4)
        heard.append(_heard(peer))
        _end(peer)

    def size() -> tuple[int, int]:
        raise OSError(errno.EIO, "Input/output error")

    reading, keys = os.pipe()
    resized, resizing = os.pipe()
    os.close(keys)
    with SpdySocket(tmp_path / "s", behave):
        assert converse(tmp_path / "s", reading, SizedTerminal(resized, size)) == CommandExit(0)
    for descriptor in (reading, resized, resizing):
        os.close(descriptor)
    assert heard == [("stdin", b"")]


@pytest.mark.parametrize("is_reset", [True, False])
def test_input_that_the_command_takes_no_more_is_read_no_more(*, is_reset: bool) -> None:
    """A program that writes into the command would fill memory."""
    link = Mock(**{"streams.open_stream.side_effect": range(1, 9)})
    command = SpdyCommand(link, Output(), 5)
    command._handle([StreamEnd(2, reset=is_reset)])
    assert (command._source is None) is is_reset
