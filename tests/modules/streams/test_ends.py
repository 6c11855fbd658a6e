"""The matrix of ends of streams: each path of a pod's streams, at each layer, with a reader that is slow, has stopped,
goes or is cut off, and more output than all sockets hold.

A client has all of the output and the exit code, or an error; a short output is no success. When it has gone, the
source ends, and nothing is left: no process, no thread, no descriptor, no stream of the tunnel.

Two cells of each path are run always, the whole matrix by `make slow`.
"""

import io
import logging
import os
import select
import socket
import struct
import tarfile
import threading
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from beehive.http import http_server
from beehive.http.spdy import StreamData, StreamEnd
from edged.logs.reader import LogReader
from modules.cloud.apiserver.endpoints import web_socket_streams
from modules.cloud.cloudstream import relay as cloud_relay
from modules.edge.edgestream import module as edgestream
from modules.runtimes.streaming import command_session, ending, port_session
from modules.runtimes.streaming.port_streams import SpdyPorts
from tests.end_to_end.processes import wait_until
from tests.modules.streams import readers
from tests.modules.streams.chain import LAYERS, Asked, Chain, CountedPoll
from tests.modules.streams.readers import Outcome, Reader
from tests.support.clocks import Ahead, StandingClock
from tests.support.patience import PATIENCE

MUCH = 4 << 20
"""Bytes, more than the sockets, the tunnel and the runtime hold."""
LITTLE = 80 * 1024
"""Bytes that a layer hands over to its sockets, although nobody reads them."""
_MOMENT = 0.3
_PATIENCE = (
    (ending, "IDLE_SECONDS"), (ending, "FLUSH_SECONDS"), (command_session, "IDLE_SECONDS"),
    (command_session, "STALL_SECONDS"), (port_session, "IDLE_SECONDS"), (cloud_relay, "IDLE_SECONDS"),
    (http_server, "STREAM_SECONDS"), (web_socket_streams, "_SEND_SECONDS"),
)  # fmt: skip
"""The bounds of a client's silence."""
_CONTENT = b"".join(b"%63d\n" % number for number in range(MUCH // 64))


class Way(NamedTuple):
    """A path, with its protocol."""

    kind: str
    protocol: str
    read: Callable[..., Outcome]
    layers: tuple[str, ...] = LAYERS
    follow: bool = False


_WS, _SPDY = readers.command_over_web_socket, readers.command_over_spdy
_SERVERS = ("node", "tunnel", "api")
WAYS = {
    "exec-v5": Way("exec", "v5.channel.k8s.io", _WS),
    "exec-v4": Way("exec", "v4.channel.k8s.io", _WS),
    "exec-spdy": Way("exec", "v4.channel.k8s.io", _SPDY),
    "cp-v5": Way("cp", "v5.channel.k8s.io", _WS),
    "cp-spdy": Way("cp", "v4.channel.k8s.io", _SPDY),
    "attach-v5": Way("attach", "v5.channel.k8s.io", _WS),
    "attach-v4": Way("attach", "v4.channel.k8s.io", _WS),
    "attach-spdy": Way("attach", "v4.channel.k8s.io", _SPDY),
    "log": Way("log", "", readers.log, _SERVERS),
    "log-follow": Way("log", "", readers.log, _SERVERS, follow=True),
    "log-ws": Way("log", "binary.k8s.io", readers.log_over_web_socket, ("api",)),
    "log-follow-ws": Way("log", "binary.k8s.io", readers.log_over_web_socket, ("api",), follow=True),
    "port-spdy": Way("portforward", "portforward.k8s.io", readers.port_over_spdy),
    "port-ws": Way("portforward", readers.TUNNELED, readers.port_over_spdy),
    "port-channels": Way("portforward", "v4.channel.k8s.io", readers.port_over_channels),
    "proxy": Way("proxy", "", readers.log, ("api",)),
}
_FAST = {
    ("runtime", "exec-v5"), ("node", "attach-spdy"), ("tunnel", "log"), ("api", "exec-spdy"), ("api", "port-spdy"),
    ("api", "proxy"),
}  # fmt: skip
_FEW = _FAST - {("api", "proxy")}
_HAS_A_CODE = ("exec", "cp")
_KINDS = (*_HAS_A_CODE, "attach", "log", "portforward", "proxy")
_HAS_A_PORT = ("portforward", "proxy")
_ENDLESS = ("exec", "attach", "log", "portforward", "proxy")
_SOME = 100_000
"""Bytes after which something happens."""
_POLLS_OF_A_LOG = 80
"""Of all layers, for a short one."""
_TURNS = 20
_MOST_POLLS = 100 * _TURNS
"""Of all layers for so many questions and answers: each byte passes five threads, in both directions."""

Open = Callable[..., "Source"]


def _cells(*kinds: str, fast: AbstractSet[tuple[str, str]] = _FAST) -> list[Any]:
    """The cells of the matrix for ways of some kinds; the fast ones are run always."""
    return [
        pytest.param(layer, way, id=f"{layer}-{name}", marks=() if (layer, name) in fast else pytest.mark.slow)
        for name, way in WAYS.items()
        for layer in way.layers
        if way.kind in kinds
    ]


def _with_codes() -> list[Any]:
    """The cells of all ways, and those of a command for more exit codes."""
    cells = [pytest.param(*each.values, 0, id=each.id, marks=each.marks) for each in _cells(*_KINDS, fast=_FEW)]
    for code in (7, 137):
        cells += [pytest.param(*each.values, code, id=f"{each.id}-{code}", marks=pytest.mark.slow)
                  for each in _cells(*_HAS_A_CODE)]  # fmt: skip
    return cells


def _with_cuts() -> list[Any]:
    """The cells of all ways, each cut off at each layer up to its client's."""
    return [
        pytest.param(*each.values, cut, id=f"{each.id}-{cut}", marks=each.marks)
        for each in _cells(*_ENDLESS)
        for cut in LAYERS[: LAYERS.index(each.values[0]) + 1]
        if not (cut == "runtime" and each.values[1].kind == "log")
    ]


@contextmanager
def _chain(directory: Path, clock: StandingClock, idle: float = 3600.0) -> Iterator[Chain]:
    """All layers. Small turns are free: they are of one clock, and would wait for the seconds by which another is ahead
    of this one.
    """
    (directory / "content").write_bytes(_CONTENT)
    with pytest.MonkeyPatch.context() as free:
        free.setattr(cloud_relay.TURNS, "charge", lambda *_: 0.0)
        free.setattr(select, "poll", CountedPoll)
        with pytest.MonkeyPatch.context() as patch:
            for each in ("BASE", "LIMIT"):
                patch.setattr(edgestream, each, 0.01)  # seconds until the node dials again, after each cut
            made = Chain(directory, clock, idle)
        yield made
        made.close()


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """All layers."""
    with _chain(tmp_path_factory.mktemp("chain"), StandingClock()) as made:
        yield made


@pytest.fixture
def impatient_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    """All layers, which leave a silent client in a moment."""
    for module, name in _PATIENCE:
        monkeypatch.setattr(module, name, _MOMENT)
    with _chain(tmp_path, Ahead(), _MOMENT) as made:  # type: ignore[arg-type]
        yield made


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the source has ended, and the first layer hands over the rest."""
    begun = threading.Event()

    def linger(*given: Any, **more: Any) -> None:
        begun.set()
        ending.linger(*given, **more)

    def close(reader: LogReader) -> None:
        begun.set()
        closes(reader)

    def end(ports: SpdyPorts, number: int) -> None:
        begun.set()
        ends(ports, number)

    closes, ends = LogReader.close, SpdyPorts.end
    monkeypatch.setattr(command_session, "linger", linger)
    monkeypatch.setattr(port_session, "linger", linger)
    monkeypatch.setattr(LogReader, "close", close)
    monkeypatch.setattr(SpdyPorts, "end", end)
    return begun


class _GoneError(Exception):
    """A client goes."""


def _go() -> None:
    raise _GoneError


@pytest.fixture
def nothing_left(chain: Chain, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Streams leave nothing behind, nothing that is polled without need, and no traceback: the other side's end is no
    failure of ours.
    """
    chain.await_tunnel()
    before = chain.held()
    yield
    with suppress(AssertionError):
        wait_until(lambda: chain.has_tunnel and not chain.held() - before, "all has ended")
    assert not chain.held() - before
    polls = CountedPoll.calls
    chain.log.write_bytes(b"")
    with chain.connected("tunnel") as connection:
        assert readers.log(Reader(connection), chain.url("tunnel", Asked("log")), "") == (b"", 0)
    assert CountedPoll.calls - polls < _POLLS_OF_A_LOG
    assert not [each.getMessage() for each in caplog.records if each.exc_info or each.levelno >= logging.ERROR]


def _is_given_up(connection: socket.socket) -> bool:
    """Return whether the other side of a connection has ended it, though there may be more to read."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


class Source:
    """What a stream comes from: a process, a container's socket, a log, a pod's port.

    Args:
        chain: of the layers.
        way: of the stream.
        content: to say.
        code: of the process.
        is_endless: says it again and again.
    """

    def __init__(
        self, chain: Chain, way: Way, content: bytes, code: str = "exit 0", *, is_endless: bool = False
    ) -> None:
        self._chain = chain
        self._way = way
        self._content = content
        self._is_endless = is_endless
        self._ends = ExitStack()
        self._breaks_off = False
        self.ended = threading.Event()
        """The source has ended, or is left."""
        self.expected = content
        self.asked = Asked(way.kind, follow=way.follow)
        match way.kind:
            case "exec" | "cp":
                self.asked = Asked("exec", ("sh", "-c", f"{self._command()}; {code}"))
            case "attach":
                conmon = self._ends.enter_context(chain.attachable())
                self._speaker = threading.Thread(target=self._speak, args=(conmon.container, b"\2"))
                self._speaker.start()
            case "log":
                lines = b"".join(
                    b"2026-01-01T00:00:00.000000000Z stdout F %s\n" % each for each in content.splitlines()
                )
                chain.log.write_bytes(lines)
                chain.publish(runs=is_endless)
            case _:
                self._listening = socket.create_server(("127.0.0.1", 0))
                self._speaker = threading.Thread(target=self._accept)
                self._speaker.start()
                self.asked = Asked(way.kind, port=self._listening.getsockname()[1])

    def await_end(self, client: socket.socket) -> None:
        """Wait until it is read, and then until nobody reads it. On a busy machine its client may have been
        given up before.
        """
        match self._way.kind:
            case "exec":
                processes = self._chain.backend.processes
                wait_until(lambda: processes or _is_given_up(client), "the command has begun")
                wait_until(lambda: all(each._process.poll() is not None for each in processes), "the command has ended")
            case "log":
                wait_until(lambda: self._chain.is_log_open or _is_given_up(client), "the log is read")
                wait_until(lambda: not self._chain.is_log_open, "the log is left")
            case _:
                self._speaker.join(PATIENCE)

    def break_off(self) -> None:
        """It ends in the middle, as when its container or pod is killed."""
        match self._way.kind:
            case "exec":
                self._chain.backend.processes[-1].kill()
            case "attach":
                self._chain.backend.conmon.container.shutdown(socket.SHUT_RDWR)
            case "log":
                self._chain.publish(runs=False)
            case _:
                self._breaks_off = True

    def close(self) -> None:
        """It ends."""
        self._chain.publish(runs=True)
        if self._way.kind in _HAS_A_PORT:
            self._listening.close()
        if self._way.kind in ("attach", *_HAS_A_PORT):
            self._speaker.join(PATIENCE)
            assert not self._speaker.is_alive()
        self._ends.close()

    def _command(self) -> str:
        file = self._chain.log.parent / "content"
        if self._is_endless:
            return f"while cat {file}; do :; done"
        if self._way.kind == "cp":
            return f"cd {file.parent} && tar cf - content"
        return f"head -c {len(self._content)} {file}"

    def _accept(self) -> None:
        with suppress(OSError):
            pod, _ = self._listening.accept()
            with pod:
                if self._way.kind == "proxy":
                    while b"\r\n\r\n" not in pod.recv(65_536):
                        pass
                    size = 1 << 40 if self._is_endless else len(self._content)
                    pod.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                self._speak(pod)
                if self._breaks_off:
                    pod.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                pod.shutdown(socket.SHUT_WR)
                while pod.recv(1):
                    pass
        self.ended.set()

    def _speak(self, connection: socket.socket, before: bytes = b"") -> None:
        with suppress(OSError):
            while True:
                for at in range(0, len(self._content), 8000):
                    connection.sendall(before + self._content[at : at + 8000])
                    if self._breaks_off:
                        return
                if not self._is_endless:
                    break
        if before:
            connection.shutdown(socket.SHUT_RDWR)
            self.ended.set()


@pytest.fixture
def opened(chain: Chain, nothing_left: None) -> Iterator[Open]:
    """Makes sources, which end with the test."""
    made: list[Source] = []

    def make(*given: Any, **more: Any) -> Source:
        made.append(Source(chain, *given, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _is_all(way: Way, source: Source, outcome: Outcome) -> bool:
    if way.kind == "cp":
        with tarfile.open(fileobj=io.BytesIO(outcome.output)) as archive:
            member = archive.extractfile("content")
            return member is not None and member.read() == _CONTENT
    return outcome.output == source.expected


@pytest.mark.parametrize(("layer", "way", "code"), _with_codes())
def test_a_slow_reader_has_all(
    chain: Chain, opened: Open, monkeypatch: pytest.MonkeyPatch, layer: str, way: Way, code: int
) -> None:
    """Also more than the sockets hold, and the exit code."""
    monkeypatch.setattr(command_session, "STALL_SECONDS", PATIENCE)
    source = opened(way, _CONTENT, "sh -c 'kill -9 $$'" if code > 128 else f"exit {code}")
    with chain.connected(layer) as connection:
        outcome = way.read(Reader(connection, 8192, source.asked.port), chain.url(layer, source.asked), way.protocol)
    assert outcome.code == code
    assert _is_all(way, source, outcome)


@pytest.mark.parametrize(("layer", "way"), _cells("exec", "attach", "log", "portforward"))
def test_a_reader_that_has_stopped_has_all_when_it_goes_on(
    chain: Chain, opened: Open, at_the_end: threading.Event, layer: str, way: Way
) -> None:
    """The source has ended meanwhile, and the layers hold the rest and the exit code."""
    source = opened(way, _CONTENT[:LITTLE], "exit 7")
    with chain.connected(layer) as connection:
        reader = Reader(connection, 0, source.asked.port)
        reader.awaits = lambda: at_the_end.wait(PATIENCE)
        outcome = way.read(reader, chain.url(layer, source.asked), way.protocol)
    assert outcome == (source.expected, 7 if way.kind in _HAS_A_CODE else 0)


@pytest.mark.parametrize(("layer", "way"), _cells(*_ENDLESS))
def test_a_reader_that_goes_ends_the_source(chain: Chain, opened: Open, layer: str, way: Way) -> None:
    """In the middle of an output without an end; `opened` looks for what is left."""
    source = opened(way, _CONTENT, is_endless=True)
    with chain.connected(layer) as connection, suppress(_GoneError):
        reader = Reader(connection, 8192, source.asked.port)
        reader.when = _SOME, _go
        way.read(reader, chain.url(layer, source.asked), way.protocol)


@pytest.mark.parametrize(("layer", "way"), [each for each in _cells(*_ENDLESS) if each.values[1] != WAYS["log"]])
def test_a_source_that_breaks_off_ends_the_stream(chain: Chain, opened: Open, layer: str, way: Way) -> None:
    """As when its container is killed."""
    source = opened(way, _CONTENT, is_endless=True)
    with chain.connected(layer) as connection:
        reader = Reader(connection, 8192, source.asked.port)
        reader.when = _SOME, source.break_off
        outcome = way.read(reader, chain.url(layer, source.asked), way.protocol)
    assert outcome.code == {"exec": -9, "proxy": readers.UNKNOWN}.get(way.kind, outcome.code)


@pytest.mark.parametrize(("layer", "way"), _cells(*_ENDLESS))
def test_a_reader_that_sends_no_more_ends_the_source(chain: Chain, opened: Open, layer: str, way: Way) -> None:
    """It has ended its side of the connection itself, as a client that has gone does, and reads on."""
    source = opened(way, _CONTENT, is_endless=True)
    with chain.connected(layer) as connection:
        reader = Reader(connection, 8192, source.asked.port)
        reader.when = _SOME, lambda: socket.socket.shutdown(connection, socket.SHUT_WR)
        way.read(reader, chain.url(layer, source.asked), way.protocol)


_SESSIONS = [each for each in _cells("portforward") if each.values[1] != WAYS["port-channels"]]
"""The ways whose connection outlives the pod's."""


@pytest.mark.parametrize("leaves", ["by a half-close, as kubectl", "by a reset"])
@pytest.mark.parametrize(("layer", "way"), _SESSIONS)
def test_a_forwarded_connection_that_is_left_ends_before_its_session(
    chain: Chain, opened: Open, monkeypatch: pytest.MonkeyPatch, layer: str, way: Way, leaves: str
) -> None:
    """The pod sends without an end. The session's next connection is answered, and nothing is polled without need."""
    monkeypatch.setattr(port_session, "MOST_ANSWER", LITTLE)
    source = opened(way, _CONTENT, is_endless=True)
    with chain.connected(layer) as connection, socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(PATIENCE)
        reader = Reader(connection, 0, source.asked.port)
        client = readers.port_client(reader, chain.url(layer, source.asked), way.protocol)
        error, data = client.open("error", "data", port=str(source.asked.port), requestID="1")
        events = client.events()
        while reader.count < _SOME:
            next(events)
        if leaves == "by a reset":
            client.spdy.reset(data)
        else:
            client.spdy.send(data, b"", last=True)
        client.flush()
        assert next(each for each in events if isinstance(each, StreamEnd) and each.stream == error)
        source.await_end(connection)
        _, data = client.open("error", "data", port=str(other.getsockname()[1]), requestID="2")
        pod, _ = other.accept()
        with pod:
            before = CountedPoll.calls
            for _ in range(_TURNS):
                client.spdy.send(data, b"question")
                client.flush()
                assert pod.recv(100) == b"question"
                pod.sendall(b"answer")
                assert StreamData(data, b"answer") in events
            assert CountedPoll.calls - before < _MOST_POLLS


@pytest.mark.parametrize(("layer", "way", "cut"), _with_cuts())
def test_a_stream_that_is_cut_off_is_no_success(chain: Chain, opened: Open, layer: str, way: Way, cut: str) -> None:
    """As when a process of that layer is killed."""
    source = opened(way, _CONTENT, is_endless=True)
    with chain.connected(layer) as connection:
        reader = Reader(connection, 8192, source.asked.port)
        reader.when = _SOME, lambda: chain.cut(cut)
        outcome = way.read(reader, chain.url(layer, source.asked), way.protocol)
    assert outcome.code == readers.UNKNOWN


@pytest.mark.parametrize(("layer", "way"), _cells("cp"))
def test_a_command_that_is_slow_has_all_of_its_input(chain: Chain, opened: Open, layer: str, way: Way) -> None:
    """`kubectl cp` to a pod: more than the layers hold, for a command that reads when the client can send no more."""
    opened(way, b"")
    gate = chain.log.parent / f"gate-{layer}-{way.protocol}-{way.read.__name__}"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate)
    asked = Asked("exec", ("sh", "-c", f"read go < {gate}; wc -c"), stdin=True)
    with chain.connected(layer) as connection:
        reader = Reader(connection, 0)
        reader.when_sent = _SOME, lambda: gate.write_text("go\n")
        outcome = way.read(reader, chain.url(layer, asked), way.protocol, _CONTENT)
    assert outcome == (f"{MUCH}\n".encode(), 0)


@pytest.mark.parametrize(("layer", "way"), _cells(*_ENDLESS, fast=_FEW))
def test_a_reader_that_has_stopped_for_good_is_left(impatient_chain: Chain, layer: str, way: Way) -> None:
    """After the idle time; the source ends, and what the reader has had is no success."""
    source = Source(impatient_chain, way, _CONTENT, is_endless=True)
    with closing(source), impatient_chain.connected(layer) as connection:
        reader = Reader(connection, 0, source.asked.port)
        reader.awaits = partial(source.await_end, connection)
        outcome = way.read(reader, impatient_chain.url(layer, source.asked), way.protocol)
    assert outcome.code == readers.UNKNOWN
