"""What is left of streams whose beginning fails half-way."""

import select
import socket
import ssl
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.http.request import Request
from beehive.simulation import Simulation
from beehive.sockets import dialling
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.cloudstream import opening, passed_streams
from modules.cloud.cloudstream.opening import NodeStreams
from modules.cloud.cloudstream.passed_streams import PassedStream, StreamsElsewhere
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.messages import Cloudcores
from modules.cloud.router.other_cloudcores import OtherCloudcores
from tests.modules.cloud.cloudstream.test_tunnels import Node
from tests.support.clocks import StandingClock
from tests.support.failing import Attempt, Failing, fail_at_each_call

_LOG = "/containerLogs/default/web/main?follow=true"


def test_a_log_whose_first_bytes_cannot_be_awaited_ends_at_the_node() -> None:
    """Nobody reads it: it would take a descriptor, and a place among the node's streams, until the tunnel ends."""
    clock = Simulation(0).clock
    tunnels = Tunnels(clock)
    node = Node(tunnels)

    def make(failing: Failing) -> Attempt:
        opened: list[Any] = []

        def log_begins(_milliseconds: float) -> None:
            node.say(node.sent()[-1].connection, b"x" * 5000)

        poll = failing.calls_of(SimpleNamespace(register=lambda *_: None, poll=log_begins))
        streams = NodeStreams(tunnels, clock, make_poll=failing.call(lambda: poll))

        def run() -> None:
            opened.append(streams.reply("n1", _LOG, Request(method="GET", target=_LOG, parts=("containerLogs",))))

        return Attempt(run, left=tunnels.streams, undo=lambda: opened.pop().done())

    assert fail_at_each_call(make) == 3


@pytest.mark.parametrize(
    ("fails", "error"),
    [("read_upgrade", MemoryError), ("pod_connection", MemoryError), ("pod_connection", OSError)],
)
def test_a_pods_connection_that_cannot_be_used_is_closed(
    monkeypatch: pytest.MonkeyPatch, fails: str, error: type[Exception]
) -> None:
    streams, stream = cast("Any", NodeStreams.__new__(NodeStreams)), Mock()
    streams._others, streams._clock, streams._open = None, None, lambda *_: stream
    monkeypatch.setattr(opening, "proxied", lambda connect, *_: connect())
    monkeypatch.setattr(opening, "read_upgrade", lambda *_: Mock(stream=stream))
    monkeypatch.setattr(opening, fails, Mock(side_effect=error))
    with pytest.raises(ApiStatusError if error is OSError else error):
        streams.proxy("n1", Mock(namespace="default", pod="web"), None, Request(method="GET", target="/", parts=()))
    stream.close.assert_called_once_with()


def test_the_connection_of_an_answer_that_breaks_off_is_closed() -> None:
    connection = Mock()
    answer = SimpleNamespace(exchange=Mock(read_body=Mock(side_effect=OSError)), receive=None, connection=connection)
    elsewhere = cast("Any", SimpleNamespace(_clock=Simulation(0).clock, _first_answer=lambda *_: answer))
    assert StreamsElsewhere._whole(elsewhere, Mock(), "n1", "/", 1.0) is None
    connection.close.assert_called_once_with()


def test_a_stream_of_another_cloudcore_that_cannot_be_watched_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = select.epoll

    def make(failing: Failing) -> Attempt:
        def passes() -> None:
            here, there = socket.socketpair()
            with there:
                PassedStream(cast("ssl.SSLSocket", here)).close()

        monkeypatch.setattr(select, "epoll", failing.call(lambda: failing.calls_of(made(), "register")))
        return Attempt(passes)

    assert fail_at_each_call(make) == 2


def test_a_cloudcore_with_which_tls_cannot_begin_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownCloudcores("here")
    known.routers = {"there": "10.0.0.2:9443"}
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def make(failing: Failing) -> Attempt:
            context = failing.calls_of(SimpleNamespace(wrap_socket=lambda plain, **_: plain))
            others = OtherCloudcores(known, lambda: context, "cloud.example")

            def connect(*_: object) -> socket.socket:
                return socket.create_connection(listening.getsockname())

            monkeypatch.setattr(dialling, "connect", connect)
            return Attempt(lambda: others.connect("there", Simulation(0).clock, 1.0).close())

        assert fail_at_each_call(make) == 1


def test_no_further_cloudcore_is_asked_after_the_deadline() -> None:
    """The reason is the first one's."""
    clock, asked = StandingClock(), list[str]()

    def connect(cloudcore: str, *_: object) -> None:
        asked.append(cloudcore)
        clock.go(9.0)
        raise TimeoutError("timed out")

    others: Any = SimpleNamespace(connect=connect, router_of=lambda _: "router")
    known = Cloudcores("here", ("here", "a", "b"), {"n1": "a"})
    elsewhere = StreamsElsewhere(others, lambda _: known, clock)
    wanted = passed_streams._Wanted("/pods", (), upgrades=False, until=clock.monotonic() + 8.0)
    with pytest.raises(ApiStatusError, match="cloudcore a, to which it is connected, cannot be reached"):
        elsewhere._first_answer(known, "n1", wanted)
    assert asked == ["a"]
