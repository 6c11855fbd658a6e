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
from beehive.http.spdy import SpdyConnection, StreamEnd
from modules.runtimes.streaming import StreamingServer, command_session, ending, port_session
from modules.runtimes.streaming.attached import AttachedContainer
from modules.runtimes.streaming.channels import (
    ChannelData,
    ChannelEnd,
    SpdyChannels,
    StreamChannel,
    WebSocketChannels,
    wanted_channels,
)
from modules.runtimes.streaming.command_session import (
    _LONGEST_SIZE,
    _MOST_INPUT,
    MOST_BEHIND,
    STALL_SECONDS,
    CommandSession,
    _ProcessStreams,
)
from modules.runtimes.streaming.ending import IDLE_SECONDS
from modules.runtimes.streaming.link import SocketLink
from modules.runtimes.streaming.port_session import ANSWER_SECONDS, MOST_HELD, PortForwardSession, _Forwarded
from modules.runtimes.streaming.port_streams import MOST_CONNECTIONS, PortData, PortEnd, PortOpened, SpdyPorts
from modules.runtimes.streaming.requests import StreamRequest
from protos.cri.v1 import api_pb2 as cri
from tests.support.clocks import StandingClock
from tests.support.failing import Failing, PlannedError
from tests.support.presence import present

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


def test_what_a_client_may_not_send_or_nobody_knows_is_dropped(clock: Clock) -> None:
    """Input for a command without any would fill its room, and the client's end be seen no more."""
    ours, client = socket.socketpair()
    with ours, client:
        client.send(b"\x09of a kind that nobody knows")
        process, streams = _Process(client.fileno(), ours.fileno()), _streams(ours, list)
        process.packets = True
        request: Any = SimpleNamespace(kind="attach", stdin=False)
        session = _ProcessStreams(process, streams, request, clock)
        session._handle([ChannelData(StreamChannel.STDIN, b"x"), ChannelData(StreamChannel.STDOUT, b"x")])
        assert not session._input
        assert session._read_output(ours.fileno()) > 0
        assert session._outputs == {ours.fileno(): StreamChannel.STDOUT}


def test_a_client_reads_why_its_command_is_refused_as_slowly_as_it_likes(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lingers, statuses = list[dict[str, Any]](), list[dict[str, Any]]()
    monkeypatch.setattr(command_session, "linger", lambda *_, **given: lingers.append(given))
    ours, client = socket.socketpair()
    with ours, client:
        streams = _streams(ours, list)
        streams.finish = statuses.append
        backend: Any = SimpleNamespace(exec=Failing(0, OSError("no such program")).call(print))
        request: Any = SimpleNamespace(kind="exec", target="c", command=("x",), tty=False, stdin=False)
        CommandSession(streams, request, backend, clock).run()
    assert lingers == [{"whole": True}]
    assert "no such program" in statuses[0]["message"]


@pytest.mark.parametrize(("tty", "version", "wanted"), [(True, 2, "EO"), (True, 3, "EOR"), (False, 4, "EO2")])
def test_a_terminal_has_no_errors_apart_and_a_size_since_version_3(*, tty: bool, version: int, wanted: str) -> None:
    request = StreamRequest("exec", "c", tty=tty, stdout=True, stderr=True)
    names = dict(zip("EO2R", (StreamChannel.ERROR, *list(StreamChannel)[1:3], StreamChannel.RESIZE), strict=True))
    assert wanted_channels(request, version) == {names[each] for each in wanted}


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
        streams.link.unsent, session._is_attached = MOST_BEHIND, False
        assert session._seconds_left() > STALL_SECONDS, "a command waits for its client"


def test_bytes_that_came_with_the_request_are_taken_without_waiting_for_others() -> None:
    """A client that says all at once waits for the answer then."""
    ours, client = socket.socketpair()
    with ours, client:
        link = SocketLink(ours, b"first")
        assert link.has_received
        assert (link.receive(), link.has_received) == (b"first", False)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("said", [ValueError(), None, b""])
def test_a_client_that_is_given_up_and_still_there_is_reset(said: ValueError | bytes | None, *, whole: bool) -> None:
    """It would take a polite end for its command's success. Of one that has ended, or is not understood, nothing can be
    lost.
    """
    ours, client = socket.socketpair()
    with ours, client:
        link = Mock(unsent=0, fileno=ours.fileno, receive=Mock(side_effect=[said]))
        ending.linger(link, cast("Clock", SimpleNamespace(monotonic=float)), whole=whole)
    is_reset = said == b"" and not whole
    assert (link.reset.call_count, link.finish.call_count) == ((1, 0) if is_reset else (0, 1))


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_client_that_takes_nothing_of_the_end_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, *, has_ended: bool
) -> None:
    """Its own end, which can be read for ever, wakes nobody; answers to its pings have a bound."""
    clock, looks, interests = StandingClock(), list[float](), [0]

    def poll(milliseconds: float) -> list[int]:
        looks.append(milliseconds)
        assert len(looks) < 9, "it goes on"
        if interests[-1] & select.POLLIN:
            return [1]
        clock.go(milliseconds / 1000)
        return []

    def receive() -> bytes | None:
        link.unsent += 0 if has_ended else ending.MOST_ANSWERS
        return None if has_ended else b""

    watched = SimpleNamespace(
        poll=poll, **dict.fromkeys(("register", "modify"), lambda _, events: interests.append(events))
    )
    monkeypatch.setattr(ending, "select", SimpleNamespace(poll=lambda: watched, POLLIN=1, POLLOUT=4))
    link: Any = Mock(unsent=1, receive=receive)
    ending.linger(link, cast("Clock", clock), whole=True)
    link.reset.assert_called_once_with()
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("protocol", "message"),
    [("v4.base64.channel.k8s.io", (b"1aGVsbG8=", True)), ("v4.channel.k8s.io", (b"\1hello", False))],
)
def test_base64_comes_as_text(protocol: str, message: tuple[bytes, bool]) -> None:
    """Its clients are browsers of old, which take nothing else."""
    said = list[tuple[bytes, bool]]()
    link = Mock(subprotocol=protocol, queue=lambda data, is_text=False: said.append((data, is_text)))
    WebSocketChannels(link, StreamRequest("exec", "c", stdout=True)).write(StreamChannel.STDOUT, b"hello")
    assert said[-1] == message


@pytest.mark.parametrize(
    ("tty", "stdin_once", "ends"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_an_attachment_ends_with_its_input_unless_the_container_goes_on_with_it(
    *, tty: bool, stdin_once: bool, ends: bool
) -> None:
    """As packets it comes, of a stream each."""
    ours, client = socket.socketpair()
    with ours, client:
        config = cri.ContainerConfig(tty=tty, stdin=True, stdin_once=stdin_once)
        attached = AttachedContainer(ours, config, Mock(), stdin=True)
        assert (attached.ends_with_stdin, attached.packets) == (ends, True)


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


@pytest.mark.parametrize(("client_ended", "is_reset"), [(False, True), (True, False), (True, True)])
def test_a_pod_that_says_no_more_is_closed_when_it_takes_no_more_or_its_client_has_ended(
    *, client_ended: bool, is_reset: bool
) -> None:
    session, closed = _session()
    send, shutdown = (Failing(0, OSError("reset")).call(each) if is_reset else each for each in (len, abs))
    each = _Forwarded(1, cast("Any", SimpleNamespace(send=send, shutdown=shutdown, close=list)))
    each.held += b"for nobody"
    each.pod_ended, each.client_ended, session._open[1] = True, client_ended, each
    session._write(each)
    assert (closed, session._open) == ([1], {})


def test_a_connection_that_ends_with_its_last_bytes_is_not_read_again() -> None:
    ours, pod = socket.socketpair()
    session, closed = _session()
    each = _Forwarded(1, ours)
    each.client_ended, session._open[1] = True, each
    session._streams.can_end = False
    with ours, pod:
        session._write = session._close  # type: ignore[method-assign]
        session._serve({ours.fileno(): select.POLLOUT | select.POLLIN})
    assert closed == [1]


@pytest.mark.parametrize(("held", "is_read"), [(MOST_HELD - 1, True), (MOST_HELD, False)])
def test_a_client_is_not_read_while_its_pods_take_too_little(*, held: int, is_read: bool) -> None:
    (ours, client), (connection, pod) = socket.socketpair(), socket.socketpair()
    with ours, client, connection, pod:
        session, _ = _session(fileno=ours.fileno)
        session._open[1] = _Forwarded(1, connection)
        session._open[1].held += bytes(held)
        client.send(b"more")
        assert (ours.fileno() in dict(session._poll().poll(0))) is is_read


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


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_pod_has_a_time_for_its_answer_to_a_client_that_sends_no_more(*, is_behind: bool) -> None:
    """Also one that says little, or nothing, or whose client takes nothing."""
    ours, pod = socket.socketpair()
    session, closed = _session(unsent=port_session._MOST_UNSENT if is_behind else 0)
    clock = cast("StandingClock", session._clock)
    session._streams.reset = closed.append  # type: ignore[method-assign, assignment]
    with ours, pod:
        session._open[1] = _Forwarded(1, ours)
        session._places.acquire()
        clock.go(2 * port_session.ANSWER_SECONDS)
        session._leave()
        session._handle(PortEnd(1, reset=False))
        clock.go(port_session.ANSWER_SECONDS - 1)
        session._leave()
        assert (list(session._open), closed) == ([1], [])
        clock.go(1)
        session._leave()
        assert (session._open, closed) == ({}, [1, 1])


@pytest.mark.parametrize("client_ended", [False, True])
def test_only_what_a_pod_says_after_its_client_has_ended_is_bounded(
    monkeypatch: pytest.MonkeyPatch, *, client_ended: bool
) -> None:
    """A download of any size through a forwarded port goes to its end."""
    monkeypatch.setattr(port_session, "MOST_ANSWER", 100)
    ours, pod = socket.socketpair()
    session, closed = _session()
    session._streams.write = lambda *_: None  # type: ignore[method-assign]
    session._streams.reset = closed.append  # type: ignore[method-assign, assignment]
    with ours, pod:
        session._open[1] = each = _Forwarded(1, ours)
        session._places.acquire()
        each.client_ended = client_ended
        pod.sendall(bytes(101))
        session._read(each)
        session._leave()
    assert bool(closed) == client_ended


def test_a_client_is_waited_for_no_longer_than_a_pod_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_session, "linger", lambda *_, **__: None)
    ours, pod = socket.socketpair()
    session, closed = _session(fileno=lambda: 5)
    waits, clock = list[float](), cast("StandingClock", session._clock)
    session._streams.reset = closed.append  # type: ignore[method-assign, assignment]

    def poll(milliseconds: float) -> list[tuple[int, int]]:
        waits.append(milliseconds / 1000)
        clock.go(milliseconds / 1000)
        return []

    monkeypatch.setattr(session, "_poll", lambda: SimpleNamespace(poll=poll))
    with ours, pod:
        session._open[1] = _Forwarded(1, ours)
        session._places.acquire()
        session._handle(PortEnd(1, reset=False))
        session.run()
    assert [round(each) for each in waits[:2]] == [ANSWER_SECONDS, IDLE_SECONDS - ANSWER_SECONDS]


def _ports() -> tuple[SpdyConnection, SpdyPorts, bytearray]:
    """A client, its forwarded connections, and the bytes that they answer it with."""
    client, answers = SpdyConnection(), bytearray()
    return client, SpdyPorts(cast("Any", _Wire(client, answers))), answers


class _Wire:
    """A link to a client: what it has sent, once."""

    def __init__(self, client: SpdyConnection, answers: bytearray) -> None:
        self._client, self.queue = client, answers.extend

    def receive(self) -> bytes:
        sent = bytes(self._client.unsent)
        self._client.unsent.clear()
        return sent


def _open(client: SpdyConnection, kind: str, port: int = 80) -> int:
    return client.open_stream({"streamtype": kind, "port": str(port), "requestid": "1"})


def test_a_stream_of_data_ends_once() -> None:
    client, ports, answers = _ports()
    data, error = (_open(client, kind) for kind in ("data", "error"))
    ports.receive()
    ports.end(data)
    ports.end(data)
    ports.close(data)
    ends = [each.stream for each in client.receive(bytes(answers)) if isinstance(each, StreamEnd)]
    assert sorted(ends) == [data, error]


def test_two_streams_of_one_connection_are_of_one_port() -> None:
    client, ports, _ = _ports()
    _open(client, "data")
    _open(client, "error", 81)
    with pytest.raises(ValueError, match="for one connection"):
        ports.receive()


def test_frames_before_the_stream_of_errors_are_bounded() -> None:
    client, ports, _ = _ports()
    data = _open(client, "data")
    for _ in range(100):
        client.send(data, b"x")
    with pytest.raises(ValueError, match="no stream of errors"):
        ports.receive()
    client, ports, _ = _ports()
    data = _open(client, "data")
    client.send(data, b"a")
    client.send(data, b"b", last=True)
    assert ports.receive() == []
    _open(client, "error")
    events = present(ports.receive())
    assert events[0] == PortOpened(data, 80)
    assert [type(each) for each in events[1:]] == [PortData, PortData, PortEnd]


@pytest.mark.parametrize("size", [1, 64 * 1024, 64 * 1024 + 1])
def test_output_of_any_size_reaches_a_web_socket_whole(size: int) -> None:
    messages = Mock(subprotocol="v4.channel.k8s.io")
    channels = WebSocketChannels(messages, StreamRequest("exec", "c", stdin=True, stdout=True))
    messages.queue.reset_mock()
    channels.write(StreamChannel.STDOUT, bytes(size))
    assert sum(len(call.args[0]) - 1 for call in messages.queue.call_args_list) == size


@pytest.mark.parametrize(
    ("protocol", "message", "events"),
    [
        ("v4", b"\xff\0", []),
        ("v5", b"\xff\0", [ChannelEnd(StreamChannel.STDIN)]),
        ("v5", b"\xff\1", []),
        ("v5", b"\xff", []),
        ("base64", b"0eA==", [ChannelData(StreamChannel.STDIN, b"x")]),
    ],
)
def test_messages_of_a_web_socket_are_understood_by_its_version(
    protocol: str, message: bytes, events: list[Any]
) -> None:
    """Before version 5 nothing closes a channel."""
    assert _input_of(protocol, message).receive() == events


def test_a_message_that_is_not_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="not base64"):
        _input_of("base64", b"0eA==!!!!").receive()


def _input_of(protocol: str, message: bytes) -> WebSocketChannels:
    """The channels of a client that has sent a message."""
    messages = Mock(subprotocol=f"{protocol}.channel.k8s.io", pongs=0)
    messages.receive.return_value = [message]
    return WebSocketChannels(messages, StreamRequest("exec", "c", stdin=True))


def test_input_that_is_opened_and_ended_at_once_has_an_end() -> None:
    client = SpdyConnection()
    link: Any = _Wire(client, bytearray())
    channels = SpdyChannels(link, "v4.channel.k8s.io", StreamRequest("exec", "c", stdin=True, stdout=True))
    client.open_stream({"streamtype": "stdin"}, ended=True)
    assert channels.receive() == [ChannelEnd(StreamChannel.STDIN)]


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
    for error in (OSError("reset"), ValueError("not understood")):
        serve = Failing(0, error).call(print)
        monkeypatch.setattr(
            "modules.runtimes.streaming.connection.StreamingConnection",
            lambda *_, serve=serve: SimpleNamespace(serve=serve),
        )
        StreamingServer._serve(cast("Any", server), cast("Any", connection))
    assert connection.is_upgraded
    server._open.enter.assert_called_once_with(connection, Phase.STREAM)


@pytest.mark.parametrize(
    ("held", "unsent", "is_read"),
    [(0, 0, True), (_MOST_INPUT - 1, 0, True), (_MOST_INPUT, 0, False), (0, ending.MOST_ANSWERS, False)],
)
def test_no_client_is_read_whose_command_or_self_takes_nothing(
    clock: Clock, held: int, unsent: int, *, is_read: bool
) -> None:
    ours, client = socket.socketpair()
    with ours, client:
        streams, request = _streams(ours, list), cast("Any", SimpleNamespace(kind="exec", stdin=True))
        session = _ProcessStreams(_Process(), streams, request, clock)
        session._input += bytes(held)
        streams.link.unsent = unsent
        client.send(b"more")
        assert bool(dict(session._poll().poll(0)).get(ours.fileno(), 0) & select.POLLIN) is is_read


def test_an_endless_writer_holds_up_no_end_of_a_command(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its children may write for ever. A terminal that nobody has open any more has ended."""
    reads = list[int]()
    with socket.socket() as ours:
        request: Any = SimpleNamespace(kind="exec", stdin=False)
        session = _ProcessStreams(_Process(stdout=7), _streams(ours, list), request, clock)

        def read(descriptor: int, most: int) -> bytes:
            reads.append(descriptor)
            assert len(reads) < 99
            return bytes(most)

        session._channels.write = lambda *_: None  # type: ignore[method-assign]
        monkeypatch.setattr("os.read", read)
        session._read_the_rest()
        assert (len(reads), session._is_over) == (32, True)
        monkeypatch.setattr("os.read", Failing(0).call(read))
        assert (session._read_output(7), session._outputs) == (0, {})


def test_a_connection_that_its_client_gives_up_is_closed_with_what_is_held() -> None:
    session, closed = _session()
    each = _Forwarded(1, cast("Any", SimpleNamespace(send=len, close=list, shutdown=abs)))
    each.held += b"for nobody"
    session._open[1] = each
    session._handle(PortEnd(1, reset=True))
    assert (closed, session._open, bytes(each.held)) == ([1], {}, b"")


def test_a_container_that_is_just_ending_takes_neither_the_end_of_input_nor_a_size() -> None:
    """No client hears of it: it gets the exit code."""
    connection = Mock(shutdown=Mock(side_effect=OSError))
    config, resize = cri.ContainerConfig(tty=True, stdin=True), Mock(side_effect=OSError)
    attached = AttachedContainer(connection, config, resize, stdin=True)
    attached.close_stdin()
    attached.resize(80, 25)
    connection.shutdown.assert_called_once_with(socket.SHUT_WR)
    resize.assert_called_once_with(80, 25)


def test_a_command_that_has_ended_takes_no_size() -> None:
    """Nor does one that runs, without a size of two numbers."""
    streams, resize = cast("Any", _ProcessStreams.__new__(_ProcessStreams)), Mock(side_effect=OSError)
    streams._sizes, streams._process = bytearray(), SimpleNamespace(resize=resize)
    streams._resize(b'{"Width":80,"Height":25}{"Width":0,"Height":25}{"Width":1,"Hei')
    resize.assert_called_once_with(80, 25)


@pytest.mark.parametrize("can_end", [False, True])
def test_where_no_direction_ends_alone_a_pods_end_is_that_of_its_connection(*, can_end: bool) -> None:
    """As with the channels of a WebSocket; why it broke off is told."""
    session, closed = _session()
    session._streams.can_end, session._streams.end = can_end, Mock()  # type: ignore[method-assign]
    each = _Forwarded(1, cast("Any", SimpleNamespace(recv=lambda _: b"", close=list)))
    session._open[1] = each
    session._read(each)
    assert closed == ([] if can_end else [1])
    broken = _Forwarded(2, cast("Any", SimpleNamespace(recv=Failing(0).call(print), close=list)))
    session._open[2], session._streams.close = broken, Mock()  # type: ignore[method-assign]
    session._read(broken)
    session._streams.close.assert_called_once_with(2, str(PlannedError()))
