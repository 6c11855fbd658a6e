"""What commands about containers have left when a call fails half-way: connections, pipes, the user's terminal."""

import os
import pty
import signal
import socket
import termios
import threading
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.http.spdy import StreamData
from modules.processes.common import page_shell
from modules.processes.common.pod_commands import cp, port_forward, remote, spdy_link
from modules.processes.common.pod_commands.channels import Channel
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.cp import ContainerFiles, _Output, _RemoteTar
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.logs import LogPrinter, LogSource
from modules.processes.common.pod_commands.spdy_link import SpdyLink
from tests.support.failing import PlannedError, census

NODE = cast("NodeClient", SimpleNamespace(stream_url=lambda *_: "/", path=Path("socket"), print_remark=lambda _: None))
TARGET = remote.ContainerTarget("default", "web", "app")


def _fail(*_: object, **__: object) -> Any:
    raise PlannedError


class _Link:
    """A link that knows whether it is open."""

    open = 0

    def __init__(self, *_: object) -> None:
        _Link.open += 1

    def close(self) -> None:
        """Close it."""
        _Link.open -= 1


@pytest.mark.parametrize(
    ("module", "user", "call"),
    [
        (remote, "SpdyCommand", lambda: remote.run_command(NODE, TARGET, ("true",), _Output())),
        (remote, "SpdyCommand", lambda: remote._converse(NODE, Namespace(stdin=True, tty=True), "/")),
        (port_forward, "_Tunnel", lambda: port_forward.SpdyPorts(NODE, "/").carry(cast("socket.socket", None), 80)),
    ],
    ids=["command", "input", "port"],
)
def test_a_link_is_closed_whatever_its_streams_end_with(
    monkeypatch: pytest.MonkeyPatch, module: Any, user: str, call: Callable[[], object]
) -> None:
    for each in ("_raw", "_size_changes"):
        monkeypatch.setattr(remote, each, lambda: closing(_Link()))
    monkeypatch.setattr(module, "SpdyLink", _Link)
    monkeypatch.setattr(module, user, lambda *_: SimpleNamespace(run=_fail))
    with pytest.raises(PlannedError):
        call()
    assert _Link.open == 0


def test_a_link_that_is_not_upgraded_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    monkeypatch.setattr(SpdyLink, "_upgrade", _fail)
    with here, there:
        with pytest.raises(PlannedError):
            SpdyLink(cast("NodeClient", SimpleNamespace(dial=lambda: here)), "/", spdy_link.COMMAND)
        assert here.fileno() == -1


@pytest.mark.parametrize("step", ["request", "getresponse"])
def test_the_connection_of_an_answer_that_fails_is_closed(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before, (here, there) = census(), socket.socketpair()
    client = NodeClient(Path("socket"))
    monkeypatch.setattr(NodeClient, "dial", lambda _: here)
    monkeypatch.setattr(HTTPConnection, step, _fail)
    with there, pytest.raises(NodeError) as caught:
        client.get("/")
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def test_a_copy_whose_command_fails_leaves_neither_pipe_nor_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The archive does not fit into the pipe: who writes it would wait for ever."""
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    before = census()
    monkeypatch.setattr(ContainerFiles, "_is_directory", lambda *_: False)
    monkeypatch.setattr(cp, "run_command", _fail)
    with pytest.raises(PlannedError):
        ContainerFiles(NODE, TARGET).upload(tmp_path / "file", "/tmp/file")
    assert not census().more_than(before)


def test_a_copy_that_cannot_be_extracted_ends_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = census()
    monkeypatch.setattr(cp, "run_command", lambda *given: given[-1](Channel.STDOUT, bytes(1 << 20)))
    monkeypatch.setattr(cp, "extract", _fail)
    with pytest.raises(PlannedError):
        ContainerFiles(NODE, TARGET).download("/tmp/file", tmp_path / "file", preserve=False)
    assert not census().more_than(before)


def test_what_a_node_says_of_an_error_is_bounded() -> None:
    said = _Output()
    command = cast("Any", spdy_link.SpdyCommand.__new__(spdy_link.SpdyCommand))
    tunnel = cast("Any", port_forward._Tunnel.__new__(port_forward._Tunnel))
    command._error = tunnel._error = 1
    command._status = tunnel._problem = b""
    for _ in range(3):
        said(Channel.STDERR, b"x" * 100_000)
        command._handle([StreamData(1, b"x" * 100_000)])
        tunnel._handle([StreamData(1, b"x" * 100_000)])
    assert (len(said.errors), len(command._status), len(tunnel._problem)) == (4096, 65_536, 4096)


def test_nothing_is_kept_for_a_peer_that_has_gone() -> None:
    """It would be tried again without a rest."""
    link = cast("Any", SpdyLink.__new__(SpdyLink))
    link.streams = SimpleNamespace(unsent=bytearray(b"x"))
    link._socket = SimpleNamespace(send=lambda _: (_ for _ in ()).throw(BrokenPipeError))
    link.send()
    assert not link.streams.unsent


@pytest.mark.parametrize(("unsent", "untaken"), [(b"", b""), (b"x", b""), (b"", b"x"), (b"x", b"x")])
def test_a_client_is_read_when_the_node_has_taken_all(
    monkeypatch: pytest.MonkeyPatch, unsent: bytes, untaken: bytes
) -> None:
    """And the node when the client has: neither side can fill the memory."""
    found, reads, writes = dict[object, int](), 1, 4
    poll = SimpleNamespace(register=found.__setitem__, poll=lambda _: ())
    monkeypatch.setattr(port_forward, "select", SimpleNamespace(poll=lambda: poll, POLLIN=reads, POLLOUT=writes))
    tunnel = cast("Any", port_forward._Tunnel.__new__(port_forward._Tunnel))
    tunnel._link = link = type("Link", (), {"streams": SimpleNamespace(unsent=unsent), "has_received": False})
    tunnel._client, tunnel._to_client, tunnel._sends = "client", bytearray(untaken), True
    tunnel._wait()
    asked = {
        link: reads * (not untaken) | writes * bool(unsent), "client": reads * (not unsent) | writes * bool(untaken),
    }  # fmt: skip
    assert found == {each: events for each, events in asked.items() if events}


def test_the_reader_of_an_archive_learns_its_end_whatever_happens() -> None:
    tar = _RemoteTar(_fail, ("tar",))
    with pytest.raises(PlannedError):
        tar._run(_fail, ("tar",))
    os.set_blocking(tar.stream.fileno(), False)
    assert tar.stream.read() == b""
    tar.stream.close()


def test_a_log_that_fails_in_any_way_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    printer = LogPrinter(NODE, (), follow=True, prefix=False, lenient=False)
    done = threading.Semaphore(0)
    error = ValueError("of this test")
    monkeypatch.setattr(printer, "_print", lambda *_, **__: (_ for _ in ()).throw(error))
    with pytest.raises(ValueError, match="of this test"):
        printer._follow_one(LogSource("default", "web", "app"), done)
    assert done.acquire(blocking=False)


def test_the_terminal_is_as_before_after_any_end(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()
    monkeypatch.setattr(remote, "_INPUT", terminal)
    before = termios.tcgetattr(terminal)
    with pytest.raises(PlannedError), remote._raw():
        assert termios.tcgetattr(terminal) != before
        raise PlannedError
    assert termios.tcgetattr(terminal) == before
    for each in (controller, terminal):
        os.close(each)


def test_changes_of_size_are_not_listened_to_after_any_end() -> None:
    """A command in the process of the tests may have left a descriptor for its own signals."""
    earlier = signal.set_wakeup_fd(-1)
    before, handler = census(), signal.getsignal(signal.SIGWINCH)
    with pytest.raises(PlannedError), remote._size_changes():
        raise PlannedError
    assert census().more_than(before) == []
    assert signal.getsignal(signal.SIGWINCH) == handler
    assert signal.set_wakeup_fd(earlier, warn_on_full_buffer=False) == -1


def test_the_connection_of_a_shell_that_cannot_be_asked_for_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    door = page_shell.SocketDoor(cast("NodeClient", SimpleNamespace(dial=lambda: here)))
    there.close()
    monkeypatch.setattr(page_shell, "shell_url", lambda *_: "/")
    with here:
        with pytest.raises(BrokenPipeError):
            door.open(cast("Any", None), ())
        assert here.fileno() == -1
