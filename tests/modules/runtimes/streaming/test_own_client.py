"""edgecore's own client of exec, attach and port-forward, over SPDY, as `edgecore exec` uses it."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from modules.processes.common.pod_commands.channels import Channel, CommandExit
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.port_forward import SpdyPorts
from modules.processes.common.pod_commands.spdy_link import COMMAND, SizedTerminal, SpdyCommand, SpdyLink
from modules.runtimes.streaming import StreamingServer
from tests.modules.processes.common.pod_commands.outputs import Output
from tests.modules.runtimes.streaming.backend import LocalBackend
from tests.modules.runtimes.streaming.front import Front
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


class Client:
    """Runs commands over a unix socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(
        self, *command: str, given: bytes | None = None, size: tuple[int, int] | None = None
    ) -> tuple[CommandExit, Output]:
        """Run a command, with a terminal if it has a size."""
        output, has_input = Output(), given is not None
        resized, resizing = os.pipe()
        with (
            Feeder(given) as source,
            os.fdopen(resized),
            os.fdopen(resizing),
            closing(
                SpdyLink(NodeClient(self.path), target(command, has_input=has_input, tty=size is not None), COMMAND)
            ) as link,
        ):
            terminal = SizedTerminal(resized, lambda: size) if size is not None else None
            return SpdyCommand(link, output, source if has_input else None, terminal).run(), output


class Feeder:
    """A pipe that is filled on a thread. A context manager with the reading end."""

    def __init__(self, given: bytes | None) -> None:
        self._reading, self._writing = os.pipe()
        self._thread = threading.Thread(target=self._feed, args=(given or b"",))

    def __enter__(self) -> int:
        self._thread.start()
        return self._reading

    def __exit__(self, *_: object) -> None:
        os.close(self._reading)
        self._thread.join()

    def _feed(self, given: bytes) -> None:
        try:
            with os.fdopen(self._writing, "wb") as file:
                file.write(given)
        except BrokenPipeError:
            pass


def target(command: tuple[str, ...], *, has_input: bool, tty: bool = False) -> str:
    """Path and query of exec."""
    flags = {"output": 1, "input": int(has_input), "tty": int(tty), "error": int(not tty)}
    return f"/exec/default/web/app?{urlencode({'command': command, **flags}, doseq=True)}"


@pytest.fixture
def client(server: StreamingServer, tmp_path: Path) -> Iterator[Client]:
    """A client whose connections are relayed."""
    with Front(server, tmp_path / "s"):
        yield Client(tmp_path / "s")


def test_exec(client: Client) -> None:
    """Output, errors and exit code."""
    result, output = client.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert result == CommandExit(7)
    assert output.bytes == {Channel.STDOUT: b"out\n", Channel.STDERR: b"err\n"}


def test_input_has_an_end(client: Client) -> None:
    """More than all buffers hold."""
    given = os.urandom(1 << 20) * 3
    result, output = client.run("cat", given=given)
    assert (result, output.bytes[Channel.STDOUT] == given) == (CommandExit(0), True)


def test_a_terminal_has_a_size(client: Client) -> None:
    """It is set before the command asks."""
    wait = "while [ \"$(stty size)\" != '33 101' ]; do :; done; stty size"
    result, output = client.run("sh", "-c", wait, given=b"", size=(101, 33))
    assert result == CommandExit(0)
    assert output.bytes[Channel.STDOUT].strip() == b"33 101"


def test_a_missing_program_is_named(client: Client) -> None:
    """With the runtime's reason."""
    result, _ = client.run("/no/such/program")
    assert "No such file" in result.problem


def test_a_command_that_reads_no_input_ends(client: Client) -> None:
    """Though its client has more."""
    result, output = client.run("echo", "done", given=b"x" * (4 << 20))
    assert (result, output.bytes[Channel.STDOUT]) == (CommandExit(0), b"done\n")


def test_children_that_stay_do_not_hold_a_command(client: Client) -> None:
    """They have its output open."""
    result, output = client.run("sh", "-c", "sleep 1000 & echo $!")
    os.kill(int(output.bytes[Channel.STDOUT]), 9)
    assert result == CommandExit(0)


def test_a_forwarded_port(client: Client) -> None:
    """Both directions end by themselves; a port without a listener gives an error."""
    given = os.urandom(2 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        ours, theirs = socket.socketpair()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection, connection.makefile("rwb") as file:
                text = file.read()
                file.write(text[::-1])

        def carry() -> None:
            with theirs:
                SpdyPorts(NodeClient(client.path), "/portForward/default/web").carry(theirs, port)

        threads = [threading.Thread(target=each) for each in (answer, carry)]
        for each in threads:
            each.start()
        with ours:
            ours.sendall(given)
            ours.shutdown(socket.SHUT_WR)
            with ours.makefile("rb") as file:
                assert file.read() == given[::-1]
        for each in threads:
            each.join()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(NodeError, match="cannot forward to port"):
        SpdyPorts(NodeClient(client.path), "/portForward/default/web").carry(theirs, free_port())


def test_a_client_that_goes_ends_its_command(client: Client, backend: LocalBackend) -> None:
    """Nothing runs on for nobody."""
    link = SpdyLink(NodeClient(client.path), target(("sleep", "1000"), has_input=False), COMMAND)
    for kind in ("error", "stdout", "stderr"):
        link.streams.open_stream({"streamtype": kind})
    link.send()
    assert backend.begun.wait(PATIENCE)
    link.close()
    assert backend.processes[0].wait() == -9
