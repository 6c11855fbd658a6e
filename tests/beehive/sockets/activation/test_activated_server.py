"""A socket's server starts with the first byte of a client, whatever clients do; the tests are clients and server."""

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beehive.simulation import VirtualClock
from beehive.sockets.activation import ActivatedServer, PrivateSocket, selector_thread, server
from beehive.sockets.activation.selector_thread import SelectorThread
from tests.end_to_end.processes import wait_until
from tests.support.descriptors import open_descriptors
from tests.support.patience import PATIENCE

MEGABYTES = 4
LARGE = bytes(range(256)) * 4096 * MEGABYTES


class OwnServer:
    """A server whose connections the test takes and answers."""

    def __init__(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.settimeout(PATIENCE)
        self.socket = PrivateSocket(self._bind)
        self.taken: list[socket.socket] = []
        self.last_words = b""
        self.graces: list[float | None] = []
        self.joined = False

    def _bind(self, path: str) -> None:
        self._listening.bind(path)
        self._listening.listen()

    def take(self) -> socket.socket:
        """Accept the next connection."""
        connection, _ = self._listening.accept()
        connection.settimeout(PATIENCE)
        self.taken.append(connection)
        return connection

    def stop(self, grace_seconds: float | None) -> None:
        self.graces.append(grace_seconds)
        self._listening.close()
        for connection in self.taken:
            if self.last_words:
                connection.sendall(self.last_words)
            connection.close()

    def join(self) -> None:
        self.joined = True


class Served:
    """A served socket, and clients of it."""

    def __init__(
        self, directory: Path, listening: socket.socket | None = None, thread: SelectorThread | None = None
    ) -> None:
        self.path = directory / "public.sock"
        self.clock = VirtualClock(1)
        self.servers: list[OwnServer] = []
        self.problems: list[Exception] = []
        """What the next starts raise."""
        self.may_start = threading.Event()
        self.may_start.set()
        self.is_starting = threading.Event()
        self._clients: list[socket.socket] = []
        own = listening if listening is not None else socket.socket(socket.AF_UNIX)
        own.bind(str(self.path))
        own.listen(64)
        self.server = ActivatedServer(own, self._start, self.clock, thread or SelectorThread())

    def _start(self) -> OwnServer:
        self.is_starting.set()
        assert self.may_start.wait(PATIENCE)
        if self.problems:
            raise self.problems.pop()
        self.servers.append(OwnServer())
        return self.servers[-1]

    def client(self, first: bytes = b"") -> socket.socket:
        """Connect, and say something."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(str(self.path))
        client.sendall(first)
        self._clients.append(client)
        return client

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return a client, and the server's end of its connection after the client's first byte."""
        client = self.client(b"!")
        wait_until(lambda: bool(self.servers), "a started server")
        taken = self.servers[-1].take()
        assert taken.recv(1) == b"!"
        return client, taken

    def close(self) -> None:
        self.may_start.set()
        self.server.stop(None)
        for client in self._clients:
            client.close()
        for each in self.servers:
            if not each.graces:
                each.stop(None)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A socket that is served until the end of the test; no thread and no descriptor is left then."""
    threads = set(threading.enumerate())
    files = open_descriptors()
    served = Served(tmp_path)
    yield served
    served.close()
    assert set(threading.enumerate()) <= threads
    assert open_descriptors() <= files


def _read(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes, or to the end."""
    parts: list[bytes] = []
    while size and (part := connection.recv(min(size, 65536))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _writes(connection: socket.socket, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=connection.sendall, args=(data,))
    thread.start()
    return thread


def test_only_a_byte_of_a_client_starts_the_server(served: Served) -> None:
    """Clients that connect and leave, or connect and say nothing, start none; the next ones share one server."""
    served.client().close()
    silent = served.client()
    client, taken = served.pair()
    other, of_other = served.pair()
    assert len(served.servers) == 1
    taken.sendall(b"one")
    of_other.sendall(b"two")
    assert (client.recv(9), other.recv(9)) == (b"one", b"two")
    silent.sendall(b"late")
    assert served.servers[0].take().recv(9) == b"late"


def test_every_byte_arrives_both_ways_at_once(served: Served) -> None:
    client, taken = served.pair()
    writing = [_writes(client, LARGE), _writes(taken, LARGE[::-1])]
    answers: list[bytes] = []
    reading = threading.Thread(target=lambda: answers.append(_read(client, len(LARGE))))
    reading.start()
    assert _read(taken, len(LARGE)) == LARGE
    for thread in (*writing, reading):
        thread.join(PATIENCE)
    assert answers == [LARGE[::-1]]


def test_a_client_that_does_not_read_costs_one_buffer_and_delays_nobody(served: Served) -> None:
    client, taken = served.pair()
    taken.settimeout(0.2)
    sent = 0
    with pytest.raises(TimeoutError):
        while True:
            sent += taken.send(LARGE[: server.BUFFER_BYTES])
    assert sent < len(LARGE) / 2
    other, of_other = served.pair()
    of_other.sendall(b"at once")
    assert other.recv(9) == b"at once"
    assert len(_read(client, sent)) == sent


def test_the_end_of_one_direction_leaves_the_other(served: Served) -> None:
    """A client, or the server, that has said everything still hears the rest."""
    client, taken = served.pair()
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    assert _read(taken, 99) == b"question"
    taken.sendall(b"answer")
    taken.close()
    assert _read(client, 99) == b"answer"
    client, taken = served.pair()
    taken.sendall(b"all")
    taken.shutdown(socket.SHUT_WR)
    assert _read(client, 99) == b"all"
    client.sendall(b"more")
    client.close()
    assert _read(taken, 99) == b"more"


def test_a_server_that_closes_a_connection_ends_it_though_the_client_does_not(served: Served) -> None:
    client, taken = served.pair()
    taken.sendall(LARGE[:1000])
    taken.close()
    assert _read(client, 9999) == LARGE[:1000]
    with pytest.raises(BrokenPipeError):
        client.sendall(LARGE)


def test_a_client_that_vanishes_ends_its_connection_to_the_server(served: Served) -> None:
    """Also while bytes for it wait."""
    client, taken = served.pair()
    writing = threading.Thread(target=_until_broken, args=(taken,))
    writing.start()
    assert client.recv(1)
    client.close()
    writing.join(PATIENCE)
    assert not writing.is_alive()


def _until_broken(connection: socket.socket) -> None:
    with pytest.raises(ConnectionError):
        connection.sendall(LARGE)


def test_the_longest_idle_connection_makes_room(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients such as critest keep connections that they do not use any more."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    pairs = [served.pair() for _ in range(4)]
    client, taken = pairs[0]
    client.sendall(b"used again")
    assert _read(taken, 10) == b"used again"
    for pair in (pairs[1], pairs[2]):
        pairs.append(served.pair())
        assert [end.recv(1) for end in pair] == [b"", b""]
    for client, taken in (pairs[0], *pairs[3:]):
        client.sendall(b"here")
        assert _read(taken, 4) == b"here"


def test_clients_that_wait_for_a_start_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    served.may_start.clear()
    oldest, second = served.client(b"1"), served.client(b"2")
    assert served.is_starting.wait(PATIENCE)
    newest = served.client(b"3")
    with pytest.raises(ConnectionResetError):
        oldest.recv(1)
    served.may_start.set()
    wait_until(lambda: bool(served.servers), "a started server")
    assert {_read(served.servers[0].take(), 1) for _ in (second, newest)} == {b"2", b"3"}


def test_the_oldest_of_too_many_silent_clients_is_ended(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_SILENT", 2)
    oldest, second, newest = (served.client() for _ in range(3))
    assert oldest.recv(1) == b""
    for client in (second, newest):
        client.sendall(b"here")
        wait_until(lambda: bool(served.servers), "a started server")
        assert served.servers[0].take().recv(9) == b"here"


def test_a_start_that_fails_ends_the_clients_that_wait_and_the_next_one_tries_again(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.problems.append(RuntimeError("no room"))
    with caplog.at_level(logging.ERROR):
        assert _is_ended(served.client(b"!"))
    assert "no room" in caplog.text
    client, taken = served.pair()
    taken.sendall(b"now")
    assert client.recv(9) == b"now"


def test_a_server_without_connections_ends_after_a_while_and_a_new_one_serves_the_next_client(served: Served) -> None:
    client, _ = served.pair()
    client.close()
    wait_until(lambda: served.clock.pending() == 1, "the end of the connection")
    client, _ = served.pair()
    assert not served.clock.fire_next(server.IDLE_SECONDS), "a connection keeps it"
    client.close()
    wait_until(lambda: served.clock.pending() == 1, "the end of the connection")
    assert served.clock.fire_next(2 * server.IDLE_SECONDS)
    wait_until(lambda: served.servers[0].graces == [None], "the end of the first server")
    client = served.client(b"!")
    wait_until(lambda: len(served.servers) == 2, "a second server")
    served.servers[1].take().sendall(b"second")
    assert client.recv(9) == b"second"


def test_stop_delivers_the_last_bytes_of_calls_under_way(served: Served) -> None:
    """The server gets the grace, its last bytes come through, and nobody can connect any more."""
    client, _ = served.pair()
    own = served.servers[0]
    own.last_words = LARGE[:200_000]
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(_read(client, 999_999)))
    reading.start()
    served.server.stop(1.5)
    reading.join(PATIENCE)
    served.server.join()
    assert got == [own.last_words]
    assert (own.graces, own.joined) == ([1.5], True)
    assert _is_refused(served.path)


def test_stop_ends_clients_that_do_not_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves its last bytes unread, or said nothing, holds up no stop."""
    monkeypatch.setattr(server, "_LAST_BYTES_SECONDS", 0.05)
    client, taken = served.pair()
    silent = served.client()
    taken.settimeout(0.2)
    with pytest.raises(TimeoutError):
        taken.sendall(LARGE)
    served.server.stop(None)
    assert silent.recv(1) == b""
    assert len(_read(client, len(LARGE))) < len(LARGE)


def test_stop_during_the_start_waits_for_it_and_ends_the_new_server(served: Served) -> None:
    served.may_start.clear()
    client = served.client(b"!")
    assert served.is_starting.wait(PATIENCE)
    stopping = threading.Thread(target=served.server.stop, args=(0.5,))
    stopping.start()
    wait_until(partial(_is_refused, served.path), "no more connections")
    served.may_start.set()
    stopping.join(PATIENCE)
    assert served.servers[0].graces == [0.5]
    assert _is_ended(client)


def _is_ended(client: socket.socket) -> bool:
    """Return whether the other side closes the connection, with or without having read all."""
    try:
        return not client.recv(1)
    except ConnectionResetError:
        return True


def _is_refused(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == errno.ECONNREFUSED


def test_clients_are_ended_while_there_can_be_no_more_threads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients get no thread, so they are ended instead of filling the backlog; the next one tries again."""
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", _no_thread)
        with pytest.raises(ConnectionResetError):
            served.client(b"!").recv(1)
    client, taken = served.pair()
    taken.sendall(b"now")
    assert client.recv(9) == b"now"


def test_an_unused_server_that_cannot_be_ended_is_ended_later(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = served.pair()
    client.close()
    wait_until(lambda: served.clock.pending() == 1, "the end of the connection")
    tried = threading.Event()

    def no_thread(**_: object) -> threading.Thread:
        tried.set()
        return _no_thread()

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", no_thread)
        assert served.clock.fire_next(2 * server.IDLE_SECONDS)
        assert tried.wait(PATIENCE)
        wait_until(lambda: served.clock.pending() == 1, "a further attempt")
    assert served.clock.fire_next(3 * server.IDLE_SECONDS)
    wait_until(lambda: served.servers[0].graces == [None], "the end of the server")


def _no_thread(**_: object) -> threading.Thread:
    raise RuntimeError("can't start new thread")


class _FullAtFirst(socket.socket):
    """A listening socket of a process that may open no more files, for a while."""

    refusals = 3

    def accept(self) -> tuple[socket.socket, Any]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_clients_wait_while_the_process_may_open_no_more_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries again at intervals and not all the time, also while other connections of the thread are never silent."""
    thread = SelectorThread()
    served = Served(tmp_path, _FullAtFirst(socket.AF_UNIX), thread)
    busy, other = socket.socketpair()
    try:
        other.sendall(b"unread")
        thread.call(lambda: thread.watch(busy, selector_thread.READ, lambda _: None)).result(PATIENCE)
        client = served.client(b"!")
        for _ in range(_FullAtFirst.refusals):
            wait_until(lambda: served.clock.pending() == 1, "a further attempt")
            assert served.clock.fire_next(served.clock.monotonic() + server.AGAIN_SECONDS)
        wait_until(lambda: bool(served.servers), "a started server")
        served.servers[-1].take().sendall(b"at last")
        assert client.recv(9) == b"at last"
        thread.call(lambda: thread.watch(busy, 0, lambda _: None)).result(PATIENCE)
    finally:
        served.close()
        busy.close()
        other.close()
    assert caplog.text.count("Too many open files") == _FullAtFirst.refusals


def test_one_thread_watches_the_sockets_of_all_servers(tmp_path: Path) -> None:
    """It exists as long as one of them."""
    before = set(threading.enumerate())
    shared = SelectorThread()
    servers: list[ActivatedServer] = []
    for number in range(3):
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(tmp_path / f"{number}.sock"))
        listening.listen()
        servers.append(ActivatedServer(listening, _never, VirtualClock(1), shared))
    seen: list[int] = []
    for each in servers:
        seen.append(len(set(threading.enumerate()) - before))
        each.stop(None)
    assert (seen, set(threading.enumerate()) - before) == ([1, 1, 1], set())


def _never() -> OwnServer:
    raise AssertionError("no client has said anything")


def test_a_function_that_fails_ends_no_watch(caplog: pytest.LogCaptureFixture) -> None:
    thread = SelectorThread()
    thread.begin()
    near, far = socket.socketpair()
    happened = threading.Event()

    def fail(_: int) -> None:
        near.recv(1)
        happened.set()
        raise ValueError("unforeseen")

    def watch(what: Callable[[int], None]) -> None:
        thread.call(lambda: thread.watch(near, selector_thread.READ, what)).result(PATIENCE)

    with near, far:
        watch(fail)
        for _ in range(2):
            happened.clear()
            far.sendall(b"!")
            assert happened.wait(PATIENCE)
        thread.call(lambda: thread.watch(near, 0, fail)).result(PATIENCE)
        thread.end()
    assert caplog.text.count("ValueError: unforeseen") == 2


def test_functions_are_called_in_the_order_of_asking() -> None:
    thread, order, may_go_on = SelectorThread(), list[int](), threading.Event()
    thread.begin()
    thread.call(partial(may_go_on.wait, PATIENCE))
    asked = [thread.call(partial(order.append, number)) for number in range(3)]
    may_go_on.set()
    for each in asked:
        each.result(PATIENCE)
    thread.end()
    assert order == [0, 1, 2]
