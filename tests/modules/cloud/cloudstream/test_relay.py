"""The relay between a client's connection and a stream of a node."""

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beehive import RealClock
from beehive.http.lingering_close import linger_for_reader
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import page_context
from modules.cloud.cloudstream import relay as module
from modules.cloud.cloudstream.relay import ClientSocket, relay
from modules.streams.small_turns import SMALL_BYTES, SmallTurns
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG
from tests.support.clocks import StandingClock
from tests.support.failing import Attempt, Failing, fail_at_each_call
from tests.support.patience import PATIENCE


class SilentStream:
    """A stream of a command that neither reads nor prints."""

    failure = ""
    is_over = False
    room = 0

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Return a descriptor that is never readable."""
        return self._event

    def receive(self, _now: float) -> bytes:
        """Return nothing."""
        return b""

    def send(self, data: bytes) -> None:
        """Refuse: there is no room."""
        raise AssertionError(data)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._event)


def test_a_client_that_goes_is_noticed_while_its_command_reads_nothing() -> None:
    """Such a connection is polled for nothing, and reports its end without end: a thread would turn for ever."""
    ours, theirs = socket.socketpair()
    with ours, closing(SilentStream()) as stream:
        threading.Timer(0.1, theirs.close).start()
        with pytest.raises(ConnectionResetError):
            relay(ours, stream, b"", RealClock())


@contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        theirs.settimeout(60)
        theirs.connect(listening.getsockname())
        ours = listening.accept()[0]
        with ours:
            yield ours, theirs


def test_a_relay_ends_when_both_sides_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command goes on: its client has no polite end."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.1)
    with tcp_pair() as (ours, theirs):
        with ours, closing(SilentStream()) as stream:
            relay(ours, stream, b"", RealClock())
        with pytest.raises(ConnectionResetError):
            theirs.recv(1)


def test_a_client_that_has_ended_its_side_has_no_polite_end() -> None:
    """It is left before the command has ended."""
    with tcp_pair() as (ours, theirs):
        theirs.shutdown(socket.SHUT_WR)
        stream = SilentStream()
        stream.room = 1
        with ours, closing(stream):
            relay(ours, stream, b"", RealClock())
        with pytest.raises(ConnectionResetError):
            theirs.recv(1)


class EndedStream(SilentStream):
    """A stream of a command that has ended; its output waits."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Whether all was taken."""
        return not self._data

    def receive(self, _now: float) -> bytes:
        """Return all."""
        data, self._data = self._data, b""
        return data


class Dripping(EndedStream):
    """A stream of a command that prints one byte at a time."""

    def receive(self, _now: float) -> bytes:
        """Return a byte."""
        data, self._data = self._data[:1], self._data[1:]
        return data


@pytest.mark.parametrize(("stream", "pauses"), [(Dripping(b"x" * 50), 39), (EndedStream(b"x" * 50), 0)])
def test_a_stream_of_single_bytes_has_so_many_turns(
    monkeypatch: pytest.MonkeyPatch, stream: SilentStream, pauses: int
) -> None:
    """Ten at a time, and then a thousand a second: sixteen of them took the interpreter from all others."""
    waited: list[float] = []
    monkeypatch.setattr(ClientSocket, "pause", lambda _, seconds: waited.append(round(seconds, 6)))
    turns = SmallTurns(rate=1000, burst=10)
    turns.charge(SMALL_BYTES, 0.0)
    with tcp_pair() as (ours, theirs):
        theirs.shutdown(socket.SHUT_WR)
        with ours, closing(stream):
            relay(ours, stream, b"", StandingClock(), turns=turns)
        assert len(b"".join(iter(partial(theirs.recv, 100), b""))) == 50
    assert waited == [round((number + 1) / 1000, 6) for number in range(pauses)]


def test_records_of_tls_with_a_byte_each_are_read_together(tmp_path: Path) -> None:
    """A client may send one character in each."""
    files = AuthorityFiles(tmp_path)
    open_authority(files, ["127.0.0.1"], RealClock().now() - OPENSSL_LAG)
    trust = ssl.create_default_context(cafile=str(files.authority))
    read: list[bytes | None] = []
    is_sent = threading.Event()

    def serve(connection: socket.socket) -> None:
        with page_context(files).wrap_socket(connection, server_side=True) as ours:
            client = ClientSocket(ours)
            assert is_sent.wait(PATIENCE)
            while sum(len(each or b"") for each in read) < 100:
                read.append(client.read(1000))
            read.append(client.read(1000))

    with tcp_pair() as (connection, theirs):
        thread = threading.Thread(target=serve, args=(connection,))
        thread.start()
        with trust.wrap_socket(theirs, server_hostname="127.0.0.1") as client:
            for _ in range(100):
                client.sendall(b"x")
            is_sent.set()
            thread.join(PATIENCE)
    assert (len([each for each in read if each]), read[-1]) == (1, None)


def test_a_client_that_reads_slowly_and_pings_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl sends a ping each 5 s; a connection that is closed before it has read all would be reset."""
    at_the_end = threading.Event()

    def linger(*given: Any) -> None:
        at_the_end.set()
        linger_for_reader(*given)

    monkeypatch.setattr(module, "linger_for_reader", linger)
    clock = StandingClock()
    output = bytes(128 * 1024)
    with tcp_pair() as (ours, client):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)

        def run() -> None:
            with ours, closing(EndedStream(output)) as stream:
                relay(ours, stream, b"", clock)

        thread = threading.Thread(target=run)
        thread.start()
        assert at_the_end.wait(PATIENCE)
        clock.go(10.0)
        received = b""
        while len(received) < len(output):
            client.sendall(b"ping")
            data = client.recv(4096)
            assert data, len(received)
            received += data
        assert client.recv(1) == b""
        client.close()
        thread.join(60)
        assert not thread.is_alive()
    clock.close()


def test_a_client_of_tls_whose_buffers_are_full_is_told_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without close_notify, a stream that another cloudcore passes on looks cut."""
    is_full = [True, True]
    unwrap = ssl.SSLSocket.unwrap

    def unwrap_later(connection: ssl.SSLSocket) -> socket.socket:
        if is_full:
            is_full.pop()
            raise ssl.SSLWantWriteError
        return unwrap(connection)

    monkeypatch.setattr(ssl.SSLSocket, "unwrap", unwrap_later)
    files = AuthorityFiles(tmp_path)
    open_authority(files, ["127.0.0.1"], RealClock().now() - OPENSSL_LAG)
    trust = ssl.create_default_context(cafile=str(files.authority))

    def serve(connection: socket.socket) -> None:
        with page_context(files).wrap_socket(connection, server_side=True) as ours, closing(stream):
            relay(ours, stream, b"", RealClock())

    stream = EndedStream(b"all")
    with tcp_pair() as (connection, theirs):
        thread = threading.Thread(target=serve, args=(connection,))
        thread.start()
        with trust.wrap_socket(theirs, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as client:
            assert (client.recv(100), client.recv(100)) == (b"all", b"")
        thread.join(60)
        assert not thread.is_alive()


def test_a_relay_that_ends_in_an_error_has_no_polite_end() -> None:
    """The client would take half an answer for a whole one."""
    ends: list[str] = []

    def make(failing: Failing) -> Attempt:
        def operation() -> None:
            with tcp_pair() as (ours, theirs):
                theirs.shutdown(socket.SHUT_WR)
                stream = EndedStream(b"x" * 50)
                try:
                    with ours, closing(stream):
                        relay(ours, failing.calls_of(stream, "receive"), b"", StandingClock())
                finally:
                    ends.append(_end_of(theirs))

        return Attempt(operation, is_repeatable=False)

    assert fail_at_each_call(make) == 1
    assert ends == ["reset", "ended"] * 2, "after errors of two classes"


@pytest.mark.parametrize(("failure", "end"), [("", "ended"), ("the node has lost its tunnel", "reset")])
def test_a_stream_that_has_failed_has_no_polite_end(failure: str, end: str) -> None:
    """All that has come was passed on, and is not all."""
    with tcp_pair() as (ours, theirs), closing(EndedStream(b"x" * 50)) as stream:
        stream.failure = failure
        theirs.shutdown(socket.SHUT_WR)
        with ours:
            relay(ours, stream, b"", StandingClock())
        assert _end_of(theirs) == end


def _end_of(connection: socket.socket) -> str:
    try:
        while connection.recv(100):
            pass
    except ConnectionResetError:
        return "reset"
    return "ended"
