"""What is left of a client's work that fails half-way."""

import io
import os
import selectors
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import Mock

import pytest
from msgspec import structs

from beehive.simulation import Simulation
from modules.apimachinery.kinds import kind_named
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.counters import ApiCounters
from modules.cloud.client.credentials.source import RequestCredentials
from modules.cloud.client.http import tls
from modules.cloud.client.http.kube_api import HttpKubeApi
from modules.cloud.client.http.network_stream import NetworkStream
from modules.cloud.client.http.selector_thread import SelectorThread
from modules.cloud.client.kube_client import CallEnd, KubeClient
from modules.cloud.client.kubeconfig.model import ExecEntry
from modules.cloud.client.lane_calls import (
    DEFAULT_LIMITS,
    CallAnswered,
    CallFailed,
    CallSuperseded,
    LaneFull,
    RequestLane,
)
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.client.response_collector import ResponseCollector
from modules.cloud.client.transport import ApiResponse, ResponseHead
from modules.cloud.client.transport_errors import KubeTlsError
from tests.modules.cloud.client.servers import ManualClock, Peer, ScriptedServer, client
from tests.modules.cloud.client.test_credentials import V1, source_of
from tests.modules.cloud.client.test_kube_client import Thread, Transport
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call, left_by_repeating
from tests.support.patience import PATIENCE

CALL: Final = ApiCall(verb="get", api_version="v1", plural="nodes", name="n1")


class Broken(io.BytesIO):
    """The output of a program that cannot be read."""

    def read(self, _size: int | None = -1) -> bytes:
        """Fail."""
        raise PlannedError


def test_a_plugin_that_cannot_be_read_leaves_no_process_and_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer would kill the program of a later request; `cat` ends by itself once it cannot read any more."""
    clock, started = ManualClock(), list[subprocess.Popen[bytes]]()
    popen = subprocess.Popen

    def broken(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **{**kwargs, "stdin": subprocess.PIPE}))
        assert started[0].stdout is not None
        started[0].stdout.close()
        started[0].stdout = Broken()
        return started[0]

    def wait(*of: int) -> object:
        assert started[0].stdin is not None
        started[0].stdin.close()
        return waitid(*of)

    waitid = os.waitid
    monkeypatch.setattr(os, "waitid", wait)
    monkeypatch.setattr(subprocess, "Popen", broken)
    source = source_of(clock, exec=ExecEntry(command="cat", api_version=V1))
    with pytest.raises(PlannedError):
        source.fetch()
    assert clock.is_idle
    assert started[0].returncode == -signal.SIGKILL
    source.close()


def test_a_thread_whose_wait_fails_ends_what_its_user_has_and_takes_no_more_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise requests would be posted to nobody, and their ends awaited for ever."""
    ended, failed = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: failed.set())

    class User:
        """Notes its end."""

        def on_socket(self, _key: str, _happened: int) -> None:
            """Do nothing."""

        def end_turn(self) -> None:
            """Do nothing."""

        def end_all(self) -> None:
            """Note it."""
            ended.set()

    before = census()
    thread = SelectorThread[str]("test", User())
    monkeypatch.setattr(thread._selector, "select", Failing(0).call(thread._selector.select))
    made: list[str] = []
    taken: list[bool] = []

    def before_the_end() -> None:
        made.append("posted before")
        taken.append(thread.post(lambda: made.append("posted during the end")))

    assert thread.post(before_the_end)
    assert failed.wait(PATIENCE)
    assert ended.is_set()
    assert (made, taken) == (["posted before"], [False])
    assert not thread.post(lambda: made.append("posted later"))
    thread.close()
    assert not census().more_than(before)


def test_a_client_goes_on_after_a_function_that_fails() -> None:
    """The module fails with it; what it asks for meanwhile, or another call's end, is still carried out."""
    thread, transport = Thread(), Transport()
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random)

    def fails(_end: CallEnd) -> None:
        raise PlannedError

    client.call(RequestLane.QUERY, CALL, fails)
    _, listener = transport.started[-1]
    listener.on_head(ResponseHead(404))
    listener.on_end()
    with pytest.raises(PlannedError):
        thread.run()
    client.call(RequestLane.QUERY, CALL, fails)
    assert len(transport.started) == 2


def test_requests_with_connections_of_their_own_leave_nothing() -> None:
    """A cloudcore makes some millions in a year; each answer here ends its connection."""

    def once(peer: Peer) -> None:
        peer.request()
        peer.answer(headers=(("Connection", "close"),))

    with ScriptedServer(once) as server, client(f"http://127.0.0.1:{server.port}") as api:

        def cycle() -> None:
            assert api.ask() == (200, b"{}")
            assert api.ask(stream=True) == (200, b"{}")
            settled = threading.Event()
            api.transport._post(lambda: api.transport._post(settled.set))
            assert settled.wait(PATIENCE)

        found = left_by_repeating(cycle, api.transport)
        assert not [each for each in found if not each.startswith(("open: socket", "thread scripted"))]


def test_calls_that_have_ended_leave_nothing() -> None:
    """With an answer, without one, given up for a newer one, and without room."""
    simulation = Simulation(1)
    thread, transport = Thread(simulation.clock), Transport()
    narrow = {lane: structs.replace(limits, waiting=1) for lane, limits in DEFAULT_LIMITS.items()}
    client = KubeClient(HttpKubeApi(transport), thread, simulation.clock.random, limits=narrow)
    ends: list[CallEnd] = []

    def cycle() -> None:
        for key in ("a", "a", "a", "b"):
            client.call(RequestLane.POD_STATUS, CALL, ends.append, key=key)
            client.call(RequestLane.QUERY, CALL, ends.append, key=key)
        answered = 0
        while answered < len(transport.started):
            listener = transport.started[answered][1]
            if answered % 2:
                listener.on_head(ResponseHead(404))
                listener.on_end()
            else:
                listener.on_error(OSError("cut"))
            answered += 1
            thread.run()
        transport.started.clear()

    assert not left_by_repeating(cycle, client._then, client._made, client._sent, client._effects, client._lanes)
    assert {type(each) for each in ends} == {CallAnswered, CallFailed, CallSuperseded, LaneFull}


def test_a_client_that_is_closed_by_one_who_hears_an_end_calls_nobody_and_has_no_timer() -> None:
    """As when the module fails with it: others' calls end at the same moment."""
    simulation = Simulation(1)
    thread, ends = Thread(simulation.clock), list[CallEnd]()
    client = KubeClient(HttpKubeApi(Transport()), thread, simulation.clock.random)

    def then(end: CallEnd) -> None:
        ends.append(end)
        client.close()

    limits = DEFAULT_LIMITS[RequestLane.EVENT]
    for _ in range(limits.in_flight + 2):
        client.call(RequestLane.EVENT, CALL, then)
    simulation.run_for(limits.seconds)
    assert len(ends) == 1


def test_a_client_that_is_closed_has_no_timer_and_no_watch() -> None:
    """A later one with its counters has heard nothing yet."""
    clock, transport, counters = ManualClock(), Transport(), ApiCounters()
    for _ in range(2):
        ends: list[object] = []
        thread = Thread(clock)
        client = KubeClient(HttpKubeApi(transport), thread, clock.random, counters)
        for lane in (RequestLane.EVENT, RequestLane.QUERY):  # the second is to be over earlier
            client.call(lane, CALL, ends.append)
        client.watch(Selection(kind=kind_named("Pod")), ends.append, "pod")
        assert counters.watch("pod").heard_at == 0.0
        transport.started[-1][1].on_error(OSError("cut"))  # to be listed again
        thread.run()
        counters.watch("pod").heard_at = 5.0
        assert not clock.is_idle
        client.close()
        assert clock.is_idle
    assert transport.cancelled == 2


def test_calls_that_were_collected_are_not_sent_by_a_client_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module may be started again, and its next client sends its own."""
    thread, sent = Thread(), list[str]()
    api: Any = SimpleNamespace(collects=True, call=lambda *_: None, send=lambda: sent.append("sent"), close=list)
    later = list[Callable[[], None]]()
    monkeypatch.setattr(thread, "end_turn_soon", later.append)
    for is_closed in (False, True):
        client = KubeClient(api, thread, thread.clock.random)
        client.call(RequestLane.QUERY, CALL, lambda _: None)
        if is_closed:
            client.close()
        later.pop()()
    assert sent == ["sent"]


def test_a_response_that_begins_again_has_nothing_of_the_first() -> None:
    """As after new credentials."""
    ended = list[ApiResponse | Exception]()
    collector = ResponseCollector(ended.append)
    for status, data in ((500, b"first"), (200, b"second")):
        collector.on_head(ResponseHead(status))
        collector.on_data(data)
    collector.on_end()
    assert ended == [ApiResponse(ResponseHead(200), b"second")]


def test_a_server_is_told_why_tls_fails() -> None:
    sent = bytearray()
    error = ssl.SSLError(1, "unknown CA")
    error.reason = "UNKNOWN_CA"
    failing = SimpleNamespace(decrypt=Mock(side_effect=error), to_send=lambda: b"alert")
    stream = SimpleNamespace(_outgoing=bytearray(), _server=Mock(text="server"))
    stream.flush = lambda: sent.extend(stream._outgoing)
    with pytest.raises(KubeTlsError):
        NetworkStream._decrypt(cast("Any", stream), cast("Any", failing), b"")
    assert sent == b"alert"


def test_a_key_that_cannot_be_read_is_in_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TLS reads it from one alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ssl.SSLError):
        tls._load(ssl.create_default_context(), RequestCredentials(certificate=b"none", key=b"secret"))
    assert not list(tmp_path.iterdir())


def test_a_selector_that_cannot_be_made_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, selector = socket.socketpair, selectors.DefaultSelector

    def make(failing: Failing) -> Attempt:
        class Failed(selector):  # type: ignore[misc, valid-type]
            """A selector whose registrations count."""

            def register(self, *given: Any) -> Any:
                """Register, or fail."""
                failing.step()
                return super().register(*given)

        monkeypatch.setattr(selectors, "DefaultSelector", failing.call(Failed))
        monkeypatch.setattr(socket, "socketpair", failing.call(pair))
        return Attempt(lambda: SelectorThread("test", SimpleNamespace()).close())

    assert fail_at_each_call(make) == 3
