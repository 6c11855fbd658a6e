"""A conversation over a WebSocket; with a server of the protocol's fifth version, which containerd 1 lacks."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from websockets.sync.server import Server, ServerConnection, unix_serve
from websockets.typing import Subprotocol

from modules.processes.common.pod_commands.channels import Channel, CommandExit
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.remote import StreamSession

SUCCESS = b'\x03{"status":"Success"}'
Behaviour = Callable[[ServerConnection], None]


class Stub:
    """A streaming server on a unix socket."""

    def __init__(self, path: Path, behaviour: Behaviour, *protocols: str) -> None:
        self.path = path
        self.heard: list[bytes] = []
        supported = [Subprotocol(each) for each in protocols]
        self._server: Server = unix_serve(behaviour, str(path), subprotocols=supported)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """No more connections."""
        self._server.shutdown()
        self._thread.join(60)


Serve = Callable[..., Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server with a behaviour and protocols."""
    made: list[Stub] = []

    def start(behaviour: Behaviour, *protocols: str) -> Path:
        made.append(Stub(tmp_path / f"{len(made)}.sock", behaviour, *(protocols or ("v5.channel.k8s.io",))))
        return made[-1].path

    yield start
    for stub in made:
        stub.close()


class Output:
    """Output by channel."""

    def __init__(self) -> None:
        self.bytes: dict[Channel, bytes] = {}

    def __call__(self, channel: Channel, data: bytes) -> None:
        self.bytes[channel] = self.bytes.get(channel, b"") + data


def talk(path: Path, output: Output, source: int | None = None, size: tuple[int, int] | None = None) -> CommandExit:
    with closing(StreamSession(NodeClient(path), "/exec/ns/p/app?command=x", output, source)) as conversation:
        conversation.open()
        return conversation.run(size=(lambda: size) if size else None)


def test_outputs_are_kept_apart_and_messages_may_come_in_parts(serve: Serve) -> None:
    def behaviour(connection: ServerConnection) -> None:
        connection.send([b"\x01one ", b"two"])
        connection.send(b"\x02oops")
        connection.send(b"\x01 three")
        connection.send(b"\x01")
        connection.send(SUCCESS)

    output = Output()
    assert talk(serve(behaviour), output) == CommandExit(0)
    assert output.bytes == {Channel.STDOUT: b"one two three", Channel.STDERR: b"oops"}


def test_input_is_passed_on_and_its_end_is_reported(serve: Serve) -> None:
    """More of it than any buffer holds, to a command that answers with as much."""
    size = 3_000_000

    def behaviour(connection: ServerConnection) -> None:
        for message in connection:
            assert isinstance(message, bytes)
            if message == b"\xff\x00":
                break
            connection.send(b"\x01" + message[1:])
        connection.send(SUCCESS)

    reading, writing = os.pipe()
    writer = threading.Thread(target=_write, args=(writing, b"x" * size))
    writer.start()
    output = Output()
    assert talk(serve(behaviour), output, reading) == CommandExit(0)
    writer.join(60)
    os.close(reading)
    assert len(output.bytes[Channel.STDOUT]) == size


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def test_an_older_server_cannot_get_the_end(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    def behaviour(connection: ServerConnection) -> None:
        assert connection.recv(60) == b"\x00x"
        connection.send(SUCCESS)

    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    assert talk(serve(behaviour, "v4.channel.k8s.io"), Output(), reading) == CommandExit(0)
    os.close(reading)


def test_the_size_of_the_terminal_is_sent_first(serve: Serve) -> None:
    heard = []

    def behaviour(connection: ServerConnection) -> None:
        heard.append(connection.recv(60))
        connection.send(SUCCESS)

    talk(serve(behaviour), Output(), size=(91, 24))
    assert heard == [b'\x04{"Width":91,"Height":24}']


def test_a_changed_size_is_sent_once_and_before_keys(serve: Serve) -> None:
    """The kernel may report keys that were typed after the change before the signal is handled."""
    heard: list[str | bytes] = []

    def behaviour(connection: ServerConnection) -> None:
        heard.extend(connection.recv(60) for _ in range(2))
        os.write(keys, b"x")
        heard.extend(connection.recv(60) for _ in range(2))
        os.write(resizing, b"\x1c")
        os.write(keys, b"y")
        heard.append(connection.recv(60))
        connection.send(SUCCESS)

    reading, keys = os.pipe()
    resized, resizing = os.pipe()
    os.write(keys, b"w")
    sizes = iter([(91, 24), (91, 24), (57, 24)])
    with closing(StreamSession(NodeClient(serve(behaviour)), "/exec/ns/p/app", Output(), reading)) as session:
        session.open()
        assert session.run(resized, lambda: next(sizes, (57, 24))) == CommandExit(0)
    for descriptor in (reading, keys, resized, resizing):
        os.close(descriptor)
    small, large = b'\x04{"Width":57,"Height":24}', b'\x04{"Width":91,"Height":24}'
    assert heard == [large, b"\0w", small, b"\0x", b"\0y"]


def test_the_input_of_a_terminal_that_is_gone_ends(serve: Serve) -> None:
    """It has no size any more, which is no failure of the command."""
    heard: list[str | bytes] = []

    def behaviour(connection: ServerConnection) -> None:
        heard.append(connection.recv(60))
        connection.send(SUCCESS)

    def size() -> tuple[int, int]:
        raise OSError(errno.EIO, "Input/output error")

    reading, keys = os.pipe()
    os.close(keys)
    with closing(StreamSession(NodeClient(serve(behaviour)), "/exec/ns/p/app", Output(), reading)) as session:
        session.open()
        assert session.run(size=size) == CommandExit(0)
    os.close(reading)
    assert heard == [b"\xff\x00"]


def test_a_connection_that_ends_early_is_no_success(serve: Serve) -> None:
    result = talk(serve(lambda connection: connection.send(b"\x01half")), Output())
    assert (result.code, "before the command" in result.problem) == (1, True)


def test_a_server_with_other_protocols_is_refused(serve: Serve) -> None:
    with pytest.raises(NodeError):
        talk(serve(lambda _: None, "v1.other"), Output())
