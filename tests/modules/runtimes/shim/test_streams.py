"""The streams of a container: log, attached clients, input."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from modules.runtimes.shim import attached, streams
from modules.runtimes.shim.attached import STALL_SECONDS, AttachedClients
from modules.runtimes.shim.log_file import LogFile
from modules.runtimes.shim.streams import STDERR, STDOUT, Input, Output
from modules.runtimes.streaming import command_session
from tests.support.failing import Failing, PlannedError
from tests.support.patience import PATIENCE


def _entries(path: Path) -> list[tuple[str, str, str]]:
    lines = (line.split(" ", 3) for line in path.read_text().splitlines())
    return [(stream, tag, text) for _, stream, tag, text in lines]


def test_output_comes_by_lines_and_its_rest_at_the_end(tmp_path: Path) -> None:
    """The pipe may be open in another process, which says nothing more."""
    ours, theirs = os.pipe()
    output = Output(ours, STDERR, LogFile(str(tmp_path / "log")))
    assert output.pump(0) == b""
    os.write(theirs, b"one\ntw")
    assert output.pump(0) == b"\3one\ntw"
    os.write(theirs, b"o\nrest")
    assert list(output.rest(0)) == [b"\3o\nrest"]
    assert _entries(tmp_path / "log") == [("stderr", "F", "one"), ("stderr", "F", "two"), ("stderr", "P", "rest")]
    os.close(theirs)
    assert output.pump(0) is None
    os.close(ours)


def test_an_endless_writer_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much is read as a pipe can hold."""
    ours, theirs = os.pipe()
    output, reads = Output(ours, STDOUT, LogFile(os.devnull)), list[int]()

    def read(descriptor: int, most: int) -> bytes:
        reads.append(descriptor)
        assert len(reads) < 1000
        return b"y" * (most - 1) + b"\n"

    monkeypatch.setattr(os, "read", read)
    assert sum(len(packet) - 1 for packet in output.rest(0)) >= 1 << 20
    assert len(reads) == 33
    monkeypatch.undo()
    for each in (ours, theirs):
        os.close(each)


class Attached:
    """A container's side of its attached clients, and one client."""

    def __init__(self, *, ends_input: bool = False) -> None:
        self.clients = AttachedClients(ends_input=ends_input)
        self.read, write = os.pipe()
        self.clients.input = Input(write)
        self.client = self.attach()

    def attach(self) -> socket.socket:
        """One more client."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.clients.add(theirs)
        ours.settimeout(PATIENCE)
        return ours

    def fill(self) -> int:
        """Send packets until the client is behind; return how many."""
        sent = 0
        while not self.clients.is_behind:
            self.clients.send(STDOUT + b"x" * 8192)
            sent += 1
        return sent


@pytest.fixture
def container() -> Iterator[Attached]:
    """A container with a client."""
    made = Attached()
    yield made
    made.client.close()
    made.clients.finish([])
    made.clients.events.close()
    os.close(made.read)


def test_output_goes_to_all_clients_and_input_to_the_container(container: Attached) -> None:
    """A client that has gone is left; the others stay."""
    other = container.attach()
    container.clients.send(STDOUT + b"hello")
    assert [each.recv(100) for each in (container.client, other)] == [b"\2hello"] * 2
    other.send(b"typed")
    container.clients.serve()
    assert os.read(container.read, 100) == b"typed"
    other.close()
    container.clients.serve()
    container.clients.send(STDERR + b"again")
    assert container.client.recv(100) == b"\3again"


def test_a_client_that_cannot_be_watched_is_closed_and_forgotten(container: Attached) -> None:
    """The shim, and so the container, goes on."""
    events = container.clients.events
    container.clients.events = Failing(0).calls_of(events, "register")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, pytest.raises(PlannedError):
        container.clients.add(theirs)
    container.clients.events = events
    container.fill()
    assert theirs.fileno() < 0
    assert container.client.recv(1) == STDOUT


def test_a_client_that_is_behind_holds_up_the_output_and_loses_nothing(container: Attached) -> None:
    """Until it has taken some of it."""
    sent = container.fill()
    assert container.clients.is_behind
    assert not container.clients.events.poll(0)
    for _ in range(sent):
        assert len(container.client.recv(10_000)) == 8193
    assert container.clients.events.poll(0), "it can be sent more"
    container.clients.serve()
    assert not container.clients.is_behind


def test_a_client_that_stays_behind_is_left(container: Attached, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container's log would wait with it."""
    sent = container.fill()
    monkeypatch.setattr(attached, "STALL_SECONDS", 0.0)
    container.clients.serve()
    assert not container.clients.is_behind
    assert [len(container.client.recv(10_000)) for _ in range(sent + 1)] == [8193] * sent + [0]


def test_the_last_packets_come_whole_and_wait_for_nobody_for_ever(
    container: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that takes nothing at the end is left, too."""
    container.fill()
    other = container.attach()
    monkeypatch.setattr(attached, "STALL_SECONDS", 0.0)
    container.clients.finish([STDOUT + b"the", STDOUT + b"end"])
    assert [other.recv(100) for _ in range(3)] == [b"\2the", b"\2end", b""]
    other.close()


def test_slow_clients_hold_up_the_end_for_a_few_seconds_in_all(
    container: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for some more with each packet that they take."""
    now, events, waits = [100.0], container.clients.events, list[float]()

    def poll(seconds: float) -> list[tuple[int, int]]:
        if seconds:
            waits.append(min(seconds, STALL_SECONDS - 1))
            now[0] += waits[-1]
            container.client.recv(1 << 16)
        return events.poll(0)

    monkeypatch.setattr(attached, "time", SimpleNamespace(monotonic=lambda: now[0]))
    container.fill()
    monkeypatch.setattr(
        container.clients, "events",
        SimpleNamespace(poll=poll, **{name: getattr(events, name) for name in ("register", "unregister", "modify")}),
    )  # fmt: skip
    container.clients.finish([STDOUT + b"x" * 8192] * 9)
    monkeypatch.setattr(container.clients, "events", events)
    assert sum(waits) == STALL_SECONDS


def test_input_waits_for_the_container(container: Attached) -> None:
    """No client is read meanwhile, so that nothing piles up; nothing is lost."""
    written = 0
    container.client.settimeout(0)
    with pytest.raises(BlockingIOError):
        while True:
            written += container.client.send(b"i" * 8192)
            container.clients.serve()
    container.client.settimeout(PATIENCE)
    assert container.clients.input is not None
    kept = len(container.clients.input.pending)
    with container.attach() as later:
        later.send(b"i")
        container.clients.serve()
    assert len(container.clients.input.pending) == kept > 0, "nor is one read that comes now"
    taken = 0
    while taken < written + 1:
        taken += len(os.read(container.read, 1 << 16))
        container.clients.serve()
    assert taken == written + 1


@pytest.mark.parametrize("ends_input", [False, True])
@pytest.mark.parametrize("way", ["shutdown", "close"])
def test_the_end_of_a_clients_input(way: str, *, ends_input: bool) -> None:
    """It ends the container's only if the pod wants it so; a client that says no more may go on reading."""
    made = Attached(ends_input=ends_input)
    made.client.send(b"last words")
    if way == "close":
        made.client.close()
    else:
        made.client.shutdown(socket.SHUT_WR)
    made.clients.serve()
    made.clients.serve()
    assert os.read(made.read, 100) == b"last words"
    assert made.clients.input is not None
    assert (made.clients.input.descriptor < 0) == ends_input
    assert made.clients.events.poll(0) == [], "there is nothing more to serve"
    if way == "shutdown":
        made.clients.send(STDOUT + b"still here")
        assert made.client.recv(100) == b"\2still here"
        made.client.close()
    if not ends_input:
        os.close(made.clients.input.descriptor)
    made.clients.finish([])
    made.clients.events.close()
    os.close(made.read)


def test_a_container_that_reads_no_more(container: Attached) -> None:
    """Its clients' input is dropped, and they go on reading."""
    read, container.read = container.read, os.open(os.devnull, os.O_RDONLY)
    os.close(read)
    container.client.send(b"to nobody")
    container.clients.serve()
    container.client.send(b"again")
    container.clients.serve()
    container.clients.send(STDOUT + b"output")
    assert container.client.recv(100) == b"\2output"


def test_a_terminal_that_nobody_has_open_any_more() -> None:
    """Its output has ended: reading it is an error, which is no other."""
    master, slave = os.openpty()
    os.close(slave)
    assert Output(master, STDOUT, LogFile(os.devnull)).pump(0) is None
    os.close(master)


def test_input_that_a_container_takes_no_more_is_closed_and_dropped(container: Attached) -> None:
    """Nothing of it piles up, and the container sees no end that comes later."""
    given = container.clients.input
    assert given is not None
    nobody = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nobody, container.read)
    os.close(nobody)
    for data in (b"typed", b"more"):
        given.write(data)
        assert (given.pending, given.descriptor) == (b"", -1)


def test_a_client_with_the_descriptor_of_one_that_has_left_is_heard(container: Attached) -> None:
    """Although the one before had ended its input; nor does it count as behind."""
    container.client.shutdown(socket.SHUT_WR)
    container.clients.serve()
    container.client.close()
    container.clients.serve()
    assert not container.clients._clients
    container.client = container.attach()
    os.set_blocking(container.read, False)
    for data in (b"typed", b"more"):
        container.client.send(data)
        container.clients.serve()
        assert os.read(container.read, 100) == data


def test_a_packet_of_output_is_read_whole_by_the_streaming_session() -> None:
    """The kernel cuts off the rest of a packet that is read in part."""
    assert len(STDOUT) + streams._READ <= command_session._READ_BYTES
