"""The loops of sessions, each look of which at the clock takes a moment."""

import itertools
import select
import socket
from collections.abc import Callable
from threading import Semaphore
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive import Clock
from beehive.http.connections import Phase
from beehive.http.spdy import SpdyConnection, SpdyError, StreamData, StreamEnd, StreamOpened
from modules.runtimes.streaming import StreamingServer, command_session, ending, port_session
from modules.runtimes.streaming.channels import ChannelData, ChannelEnd, SpdyChannels, StreamChannel, WebSocketChannels
from modules.runtimes.streaming.command_session import (
    _LONGEST_SIZE,
    _MOST_INPUT,
    MOST_BEHIND,
    STALL_SECONDS,
    CommandSession,
    _ProcessStreams,
)
from modules.runtimes.streaming.ending import IDLE_SECONDS
from modules.runtimes.streaming.port_session import MOST_HELD, PortForwardSession, _Forwarded
from modules.runtimes.streaming.port_streams import MOST_CONNECTIONS, PortData, PortOpened, SpdyPorts
from modules.runtimes.streaming.requests import StreamRequest
from tests.support.clocks import StandingClock
from tests.support.failing import Failing, PlannedError

_STEP = 0.001
"""Seconds that pass with each look at the clock."""
_LOOKS = 100


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of sessions that end when two looks at it have passed without data, and send nothing more then."""
    for each in (command_session, port_session):
        monkeypatch.setattr(each, "IDLE_SECONDS", 1.5 * _STEP)
        monkeypatch.setattr(each, "linger", lambda *_, **__: None)
    looks = itertools.count()

    def monotonic() -> float:
        look = next(looks)
        assert look < _LOOKS, "it goes on"
        return look * _STEP

    return cast("Clock", SimpleNamespace(monotonic=monotonic))


def _streams(ours: socket.socket, receive: Callable[[], object]) -> Any:
    link = SimpleNamespace(send=list, unsent=0, has_received=False, fileno=ours.fileno)
    return SimpleNamespace(link=link, over=False, complete=True, can_end=True, receive=receive, end=list, close=list)


class _Process(SimpleNamespace):
    """A command, and what became of it."""

    def __init__(self, stdin: int | None = None, stdout: int | None = None) -> None:
        self.ended_by = list[str]()
        super().__init__(stdin=stdin, stdout=stdout, stderr=None, ended=None, packets=False, ends_with_stdin=False)

    def __getattr__(self, name: str) -> Callable[[], int]:
        def called() -> int:
            self.ended_by.append(name)
            return 0

        return called


def _command(streams: Any, process: _Process, clock: Clock) -> None:
    request: Any = SimpleNamespace(kind="exec", target="c", command=("cat",), tty=False, stdin=True)
    backend: Any = SimpleNamespace(exec=lambda *_, **__: process)
    CommandSession(streams, request, backend, clock).run()


@pytest.mark.parametrize("kind", ["portforward", "exec"])
def test_a_session_without_data_ends(clock: Clock, kind: str) -> None:
    """A client that has gone without a word would have its connection, its place and its command for ever."""
    ours, client = socket.socketpair()
    with ours, client:
        streams, process = _streams(ours, list), _Process(stdout=client.fileno())
        if kind == "exec":
            _command(streams, process, clock)
            assert process.ended_by == ["kill", "wait", "close"]
        else:
            PortForwardSession(streams, "s", SimpleNamespace(), clock, Semaphore(1)).run()


def test_a_command_whose_session_fails_is_killed(clock: Clock) -> None:
    """Nobody would read its output, and nobody end it."""
    ours, client = socket.socketpair()
    with ours, client:
        streams, process = _streams(ours, list), _Process(stdout=client.fileno())
        streams.link.send = Failing(0).call(list)
        with pytest.raises(PlannedError):
            _command(streams, process, clock)
    assert process.ended_by == ["kill", "wait", "close"]


def test_input_before_all_streams_are_open_is_bounded(clock: Clock) -> None:
    """Not each message by itself."""
    ours, client = socket.socketpair()
    with ours, client:
        streams = _streams(ours, lambda: [ChannelData(StreamChannel.STDIN, bytes(_MOST_INPUT // 4))])
        streams.complete, streams.link.has_received = False, True
        _command(streams, _Process(), clock)


def test_the_rest_of_a_terminals_size_is_bounded(clock: Clock) -> None:
    """A client may never send its end."""
    ours, client = socket.socketpair()
    with ours, client:
        request: Any = SimpleNamespace(kind="exec", stdin=False)
        session = _ProcessStreams(_Process(), _streams(ours, list), request, clock)
        for _ in range(4):
            session._handle([ChannelData(StreamChannel.RESIZE, bytes(_LONGEST_SIZE))])
        assert len(session._sizes) == _LONGEST_SIZE


def test_a_client_of_an_attached_container_that_has_caught_up_is_not_left(clock: Clock) -> None:
    """However long before it was behind, and whether it will be again."""
    ours, client = socket.socketpair()
    with ours, client:
        streams, request = _streams(ours, list), cast("Any", SimpleNamespace(kind="attach", stdin=False))
        session = _ProcessStreams(_Process(), streams, request, clock)
        session._last = 1e6
        for unsent, is_stalled in ((MOST_BEHIND, True), (MOST_BEHIND // 2, True), (0, False), (MOST_BEHIND - 1, False)):
            streams.link.unsent = unsent
            assert (session._seconds_left() <= STALL_SECONDS) == is_stalled, unsent


def test_bytes_that_a_command_takes_no_more_do_not_hold_up_its_client(clock: Clock) -> None:
    """It would be read no more, and not even its end be seen."""
    ours, client = socket.socketpair()
    command, stdin = socket.socketpair()
    with ours, client, command, stdin:
        command.shutdown(socket.SHUT_RD)
        client.send(b"more")
        said = iter([[ChannelData(StreamChannel.STDIN, bytes(_MOST_INPUT))], [], None])
        process = _Process(stdin.fileno(), client.fileno())
        _command(_streams(ours, said.__next__), process, clock)
    assert next(said, "all is read") == "all is read"


def test_bytes_that_a_pod_takes_no_more_do_not_hold_up_the_clients_other_connections(clock: Clock) -> None:
    """They would count for it until it goes, and it would be read no more."""
    ours, client = socket.socketpair()
    connection, pod = socket.socketpair()
    with ours, client, connection, pod:
        pod.shutdown(socket.SHUT_RD)
        client.send(b"more")
        said = iter([[PortOpened(1, 80)], [PortData(1, bytes(MOST_HELD))], [], None])
        backend: Any = SimpleNamespace(port_forward=lambda *_: connection)
        PortForwardSession(_streams(ours, said.__next__), "s", backend, clock, Semaphore(1)).run()
    assert next(said, "all is read") == "all is read"


def test_connections_without_a_stream_of_errors_are_bounded() -> None:
    """A client that opens one stream of each takes as much memory as by both."""
    client, answers = SpdyConnection(), bytearray()
    numbers = range(MOST_CONNECTIONS + 2)
    streams = [client.open_stream({"streamtype": "data", "port": "80", "requestid": str(each)}) for each in numbers]
    link: Any = SimpleNamespace(receive=lambda: bytes(client.unsent), queue=answers.extend)
    assert SpdyPorts(link).receive() == []
    ends = [each.stream for each in client.receive(bytes(answers)) if isinstance(each, StreamEnd) and each.reset]
    assert ends == streams[MOST_CONNECTIONS:]


def test_connections_that_have_ended_give_their_places_back() -> None:
    """A browser behind `kubectl port-forward` opens thousands in turn."""
    client, ports = SpdyConnection(), SpdyPorts(link := SimpleNamespace(queue=len))
    link.receive = lambda: bytes(client.unsent)
    for number in range(MOST_CONNECTIONS + 1):
        client.unsent.clear()
        streams = [
            client.open_stream({"streamtype": kind, "port": "80", "requestid": str(number)})
            for kind in ("error", "data")
        ]
        for each in streams:
            client.send(each, b"", last=True)
        opened = (ports.receive() or [])[0]
        assert opened == PortOpened(streams[1], 80)
        ports.close(opened.number)


@pytest.mark.parametrize(("whole", "said"), [(False, b"a ping"), (True, None)])
def test_a_client_that_takes_nothing_is_given_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, whole: bool, said: bytes | None
) -> None:
    """Soon after it has ended its own side, or was given up before, although it says something."""
    monkeypatch.setattr(ending, "FLUSH_SECONDS", _LOOKS / 2 * _STEP)
    reset = list[bool]()
    with socket.socket() as ours:
        link: Any = SimpleNamespace(send=list, unsent=1, receive=lambda: said, fileno=ours.fileno)
        link.reset = lambda: reset.append(True)
        ending.linger(link, clock, whole=whole)
    assert reset == [True]


def _session(**link: Any) -> tuple[PortForwardSession, list[int]]:
    """A session without a client, and the connections whose streams it has closed."""
    closed = list[int]()
    made = SimpleNamespace(**{"unsent": 0, "has_received": False, "send": list, **link})
    streams: Any = SimpleNamespace(
        link=made, over=False, can_end=True, receive=list, close=lambda number, _="": closed.append(number)
    )
    return PortForwardSession(streams, "s", SimpleNamespace(), cast("Clock", StandingClock()), Semaphore(9)), closed


def test_a_pod_that_takes_no_more_and_says_no_more_is_closed_without_its_client() -> None:
    session, closed = _session()
    each = _Forwarded(1, cast("Any", SimpleNamespace(send=Failing(0, OSError("reset")).call(len), close=list)))
    each.held += b"for nobody"
    each.pod_ended, session._open[1] = True, each
    session._write(each)
    assert (closed, session._open) == ([1], {})


@pytest.mark.parametrize("is_behind", [True, False])
def test_no_pod_is_read_while_its_client_is_behind(*, is_behind: bool) -> None:
    ends = [socket.socketpair() for _ in range(2)]
    (ours, _), (connection, pod) = ends
    session, _ = _session(fileno=ours.fileno, unsent=port_session._MOST_UNSENT if is_behind else 0)
    session._open[1] = _Forwarded(1, connection)
    pod.send(b"output")
    ready = dict(session._poll().poll(0))
    assert (connection.fileno() in ready) is not is_behind
    for each in (end for pair in ends for end in pair):
        each.close()


def test_the_time_without_data_begins_with_the_last_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the client has been there."""
    monkeypatch.setattr(port_session, "linger", lambda *_, **__: None)
    session, _ = _session(fileno=lambda: 5)
    waits, clock = list[float](), cast("StandingClock", session._clock)

    def poll(milliseconds: float) -> list[tuple[int, int]]:
        waits.append(milliseconds / 1000)
        clock.go(0.9 * IDLE_SECONDS if len(waits) < 3 else milliseconds / 1000)
        return [(5, select.POLLIN)] if len(waits) < 3 else []

    monkeypatch.setattr(session, "_poll", lambda: SimpleNamespace(poll=poll))
    session.run()
    assert [round(each) for each in waits[:3]] == [IDLE_SECONDS] * 3


def _ports() -> tuple[SpdyPorts, Mock]:
    """Streams of ports on a connection that takes all."""
    made = SpdyPorts(cast("Any", SimpleNamespace()))
    made._spdy = spdy = Mock()
    return made, spdy


def _stream(number: int, kind: str, port: int = 80) -> StreamOpened:
    return StreamOpened(number, {"streamtype": kind, "port": str(port), "requestid": "1"}, ended=False)


def test_a_stream_of_data_ends_once() -> None:
    ports, spdy = _ports()
    for number, kind in ((1, "data"), (3, "error")):
        ports._understood(_stream(number, kind))
    ports.end(1)
    ports.end(1)
    ports.close(1)
    assert sorted(call.args[0] for call in spdy.send.call_args_list) == [1, 3]


def test_two_streams_of_one_connection_are_of_one_port() -> None:
    ports, _ = _ports()
    ports._understood(_stream(1, "data"))
    with pytest.raises(SpdyError):
        ports._understood(_stream(3, "error", 81))


def test_frames_before_the_stream_of_errors_are_bounded() -> None:
    ports, _ = _ports()
    ports._understood(_stream(1, "data"))
    with pytest.raises(SpdyError):
        for _ in range(100):
            ports._understood(StreamData(1, b"x"))


@pytest.mark.parametrize("size", [1, 64 * 1024, 64 * 1024 + 1])
def test_output_of_any_size_reaches_a_web_socket_whole(size: int) -> None:
    messages = Mock(subprotocol="v4.channel.k8s.io")
    channels = WebSocketChannels(messages, StreamRequest("exec", "c", stdin=True, stdout=True))
    messages.queue.reset_mock()
    channels.write(StreamChannel.STDOUT, bytes(size))
    assert sum(len(call.args[0]) - 1 for call in messages.queue.call_args_list) == size
    assert channels._event(b"\xff\0") is None, "before version 5 nothing closes a channel"


def test_input_that_is_opened_and_ended_at_once_has_an_end() -> None:
    link: Any = SimpleNamespace(queue=len)
    channels = SpdyChannels(link, "v4.channel.k8s.io", StreamRequest("exec", "c", stdin=True, stdout=True))
    channels._spdy = Mock()
    opened = StreamOpened(1, {"streamtype": "stdin"}, ended=True)
    assert channels._understood(opened) == [ChannelEnd(StreamChannel.STDIN)]


def test_a_stream_is_no_connection_that_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has begun is not closed for another one."""
    began = list[Callable[[], None]]()
    monkeypatch.setattr(
        "modules.runtimes.streaming.connection.StreamingConnection",
        lambda *given: SimpleNamespace(serve=lambda: began.append(given[-1])),
    )
    server = SimpleNamespace(_open=Mock(), _waiting=None, _backend=None, _clock=None, _places=None)
    connection = SimpleNamespace(socket=None, is_upgraded=False)
    StreamingServer._serve(cast("Any", server), cast("Any", connection))
    assert (connection.is_upgraded, server._open.enter.called) == (False, False)
    began[0]()
    assert connection.is_upgraded
    server._open.enter.assert_called_once_with(connection, Phase.STREAM)
