"""What a client hands from the transport's thread to its module's, and when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest

from beehive.clock import Clock, Timer
from beehive.simulation import Simulation
from modules.apimachinery.kinds import kind_named
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.counters import NO_RESPONSE, ApiCounters
from modules.cloud.client.http.kube_api import UNREAD_BYTES, HttpKubeApi, HttpReading
from modules.cloud.client.kube_api import CallResponse, KubeApi
from modules.cloud.client.kube_client import CallEnd, KubeClient, News
from modules.cloud.client.lane_calls import CallFailed, RequestLane
from modules.cloud.client.reflector.effects import Added, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener

METADATA = {"name": "web", "uid": "u1", "resourceVersion": "7"}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": METADATA}
PAGE = msgspec.json.encode(
    {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [POD]}
)
PIECE = b"\n".rjust(UNREAD_BYTES // 4)
"""A part of a watch without an event."""
EVENT = msgspec.json.encode({"type": "ADDED", "object": {**POD, "metadata": {**METADATA, "name": "second"}}})


class Thread:
    """A module's thread, whose calls wait until `run`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Simulation(1).clock
        self.waiting: list[Callable[[], None]] = []

    def call_soon(self, function: Callable[[], None]) -> None:
        self.waiting.append(function)

    def end_turn_soon(self, first: Callable[[], None]) -> None:
        self.waiting.append(first)

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self.clock.after(seconds, function)

    def run(self) -> int:
        """Make the calls; return how many there were."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()
        return len(waiting)


class Transport:
    """A transport and each of its exchanges; the test answers the request that was started last."""

    def __init__(self) -> None:
        self.started: list[tuple[ApiRequest, ResponseListener]] = []
        self.cancelled = 0

    def start(self, request: ApiRequest, listener: ResponseListener) -> Transport:
        self.started.append((request, listener))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


def test_a_page_is_handed_over_when_it_is_complete_and_an_event_as_it_comes() -> None:
    """A page in a hundred pieces wakes the module at its end. An event of a watch does, unless the module has not come
    to the one before.
    """
    thread, transport = Thread(), Transport()
    told: list[News] = []
    KubeClient(HttpKubeApi(transport), thread, thread.clock.random).watch(
        Selection(kind=kind_named("Pod")), told.append
    )
    _, page = transport.started[-1]
    page.on_head(ResponseHead(200))
    for at in range(0, len(PAGE), 2):
        page.on_data(PAGE[at : at + 2])
    assert thread.run() == 0
    page.on_end()
    assert thread.run() == 1, "head, body and end together"
    assert [type(each) for each in told] == [Added, Synced]
    request, watch = transport.started[-1]
    assert request.stream
    watch.on_head(ResponseHead(200))
    watch.on_data(EVENT + b"\n")
    assert thread.run() == 1
    assert isinstance(told[-1], Added)
    assert told[-1].object.name == "second"


def test_a_refusal_is_handed_over_with_its_words() -> None:
    """What the server says of a list that it refuses is not lost."""
    thread, transport = Thread(), Transport()
    told: list[News] = []
    KubeClient(HttpKubeApi(transport), thread, thread.clock.random).watch(
        Selection(kind=kind_named("Pod")), told.append
    )
    _, page = transport.started[-1]
    page.on_head(ResponseHead(403))
    page.on_data(b'{"kind":"Status","code":403,')
    page.on_data(b'"message":"pods is forbidden"}')
    page.on_end()
    thread.run()
    assert [(getattr(each, "status", 0), getattr(each, "message", "")) for each in told] == [(403, "pods is forbidden")]


def test_each_attempt_of_a_request_is_counted_with_its_status_and_duration() -> None:
    """Without a response, after too many requests, and with success."""
    simulation = Simulation(1)
    thread, transport, counters = Thread(simulation.clock), Transport(), ApiCounters()
    ends: list[CallEnd] = []
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random, counters)
    client.call(
        RequestLane.NODE, ApiCall(verb="get", api_version="v1", plural="nodes", name="n1"), ends.append, idempotent=True
    )
    depth = counters.depths[RequestLane.NODE]
    assert (depth.waiting, depth.in_flight) == (0, 1)
    transport.started[-1][1].on_error(OSError("cut"))
    thread.run()
    assert (depth.waiting, depth.in_flight) == (1, 0)
    for status in (429, 200):
        sent = len(transport.started)
        while len(transport.started) == sent:
            simulation.run_for(0.1)
        simulation.run_for(0.2)
        transport.started[-1][1].on_head(ResponseHead(status))
        transport.started[-1][1].on_end()
        thread.run()
    assert len(ends) == 1
    statuses = {(RequestLane.NODE, status): 1 for status in (NO_RESPONSE, 429, 200)}
    assert counters.statuses == statuses
    buckets = dict(counters.durations[RequestLane.NODE].buckets())
    assert (buckets["0.005"], buckets["0.1"], buckets["0.5"]) == (1, 1, 3)


def test_the_wait_of_a_request_ends_with_its_first_sending() -> None:
    """Of three calls of one object the last takes the place of the second, which is never sent; retries wait for other
    reasons.
    """
    simulation = Simulation(1)
    thread, transport, counters = Thread(simulation.clock), Transport(), ApiCounters()
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random, counters)
    call = ApiCall(verb="patch", api_version="v1", plural="pods", namespace="d", name="web", body={})
    ends: list[CallEnd] = []
    for _ in range(3):
        client.call(RequestLane.POD_STATUS, call, ends.append, key="web", idempotent=True)
    simulation.run_for(2.0)
    transport.started[-1][1].on_error(OSError("cut"))
    thread.run()
    simulation.run_for(20.0)
    assert len(transport.started) == 2, "the newest in place of the retry"
    transport.started[-1][1].on_head(ResponseHead(200))
    transport.started[-1][1].on_end()
    thread.run()
    assert len(ends) == 3
    waits = counters.waits[RequestLane.POD_STATUS]
    assert dict(waits.buckets())["+Inf"] == 2
    assert 2.0 < waits.total < 22.0
    assert dict(counters.waits[RequestLane.NODE].buckets())["+Inf"] == 0


def test_lists_failures_and_the_last_news_of_a_watch_are_counted() -> None:
    simulation = Simulation(1)
    thread, transport, counters = Thread(simulation.clock), Transport(), ApiCounters()
    simulation.run_for(5.0)
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random, counters)
    client.watch(Selection(kind=kind_named("Pod")), lambda _news: None, "Pod")
    watch = counters.watches["Pod"]
    assert (watch.lists, watch.failures, watch.heard_at) == (0, 0, 0.0)
    _, page = transport.started[-1]
    page.on_head(ResponseHead(200))
    page.on_data(PAGE)
    page.on_end()
    thread.run()
    listed_at = thread.clock.monotonic()
    assert (watch.lists, watch.failures, watch.heard_at) == (1, 0, listed_at)
    simulation.run_for(7.0)
    _, stream = transport.started[-1]
    stream.on_head(ResponseHead(200))
    stream.on_data(EVENT + b"\n")
    stream.on_error(OSError("cut"))
    thread.run()
    assert (watch.lists, watch.failures, watch.heard_at) == (1, 1, listed_at + 7.0)


def test_a_call_that_the_end_of_another_makes_has_its_own_deadline() -> None:
    """Deadlines of other lanes are later, and known since before."""
    simulation = Simulation(1)
    thread, transport = Thread(simulation.clock), Transport()
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random)
    failed_at: list[float] = []
    began = thread.clock.monotonic()

    def failed(end: CallEnd) -> None:
        assert isinstance(end, CallFailed)
        failed_at.append(thread.clock.monotonic() - began)
        if len(failed_at) == 1:
            call(RequestLane.QUERY, failed)

    def call(lane: RequestLane, then: Callable[[CallEnd], None]) -> None:
        client.call(lane, ApiCall(verb="get", api_version="v1", plural="nodes", name="n1"), then, key="n1")

    for lane in (RequestLane.QUERY, RequestLane.EVENT):
        call(lane, lambda _: None)  # is never answered, so that the next one waits
    call(RequestLane.EVENT, lambda _: None)
    call(RequestLane.QUERY, failed)
    simulation.run_for(61.0)
    assert failed_at == [30.0, 60.0]


def test_calls_that_fail_together_are_told_in_their_order() -> None:
    """Those that waited for the first, which is never answered."""
    simulation = Simulation(1)
    thread = Thread(simulation.clock)
    client = KubeClient(HttpKubeApi(Transport()), thread, thread.clock.random)
    ends: list[CallEnd] = []
    for number in range(4):
        call = ApiCall(verb="get", api_version="v1", plural="nodes", name=f"n{number}")
        client.call(RequestLane.QUERY, call, ends.append, key="n")
    simulation.run_for(31.0)
    assert [end.number for end in ends] == [2, 3, 4]


@dataclass
class Connection:
    """The connection of a watch, read by a thread that may be interrupted before it stops reading."""

    is_paused: bool = False
    interrupted: Callable[[], None] = lambda: None
    resumed: Callable[[], None] = lambda: None

    def pause(self) -> None:
        self.interrupted()
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.resumed()

    def cancel(self) -> None: ...


def test_a_watch_is_read_on_although_it_was_paused_again_before_the_module_went_on() -> None:
    """The reading thread is fast, too."""
    reading, more = HttpReading(lambda: None, is_watch=True), [PIECE] * 4
    reading.exchange = connection = Connection()
    reading.on_head(ResponseHead(200))

    def read() -> None:
        while more:
            reading.on_data(more.pop())

    connection.resumed = read
    for _ in range(5):
        reading.on_data(PIECE)
    states = [connection.is_paused]
    for _ in range(9):
        reading.receive()
        states.append(connection.is_paused)
    assert (more, states) == ([], [True] * 7 + [False] * 3)


def test_a_watch_is_read_on_although_the_module_was_fast_while_the_reading_was_paused() -> None:
    """The module has taken most of what was there when the reading thread goes on with pausing."""
    reading = HttpReading(lambda: None, is_watch=True)
    reading.exchange = connection = Connection()
    reading.on_head(ResponseHead(200))
    for _ in range(4):
        reading.on_data(PIECE)
    assert not connection.is_paused

    def take() -> None:
        for _ in range(4):
            reading.receive()

    connection.interrupted = take
    reading.on_data(PIECE)
    reading.receive()
    assert not connection.is_paused


def test_a_watch_is_read_on_when_half_of_what_waited_was_taken() -> None:
    reading = HttpReading(lambda: None, is_watch=True)
    reading.exchange = connection = Connection()
    reading.on_head(ResponseHead(200))
    states = []
    for _ in range(5):
        reading.on_data(PIECE)
        states.append(connection.is_paused)
    for _ in range(5):
        reading.receive()
        states.append(connection.is_paused)
    assert states == [False] * 4 + [True] * 3 + [False] * 3


def test_what_came_for_an_earlier_request_takes_nothing_from_the_next_one() -> None:
    """Its hand-over was under way when the objects were to be listed again."""
    thread, transport, told = Thread(), Transport(), list[News]()
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random)
    client.watch(Selection(kind=kind_named("Pod")), told.append)
    for lists_again in (True, False):
        _, page = transport.started[-1]
        page.on_head(ResponseHead(200))
        page.on_data(PAGE)
        page.on_end()
        if lists_again:
            client.list_again()
    thread.run()
    assert [type(each) for each in told] == [Added, Synced]


class Collecting:
    """The API server of the same process, which is busy at first."""

    collects = True

    def __init__(self) -> None:
        self.sent = 0

    def call(self, _call: ApiCall, _ended: Callable[[CallResponse | Exception], None]) -> None: ...

    def send(self) -> None:
        self.sent += 1
        if self.sent == 1:
            raise RuntimeError("of this test")


def test_calls_are_sent_although_it_has_failed_once() -> None:
    """Each turn that makes some sends them."""
    api, thread = Collecting(), Thread()
    client = KubeClient(cast("KubeApi", api), thread, thread.clock.random)
    call = ApiCall(verb="get", api_version="v1", plural="nodes", name="n1")
    for sent in (1, 2):
        client.call(RequestLane.NODE, call, lambda _: None)
        with nullcontext() if sent == 2 else pytest.raises(RuntimeError):
            thread.run()
        assert api.sent == sent


def test_nothing_is_told_after_the_end() -> None:
    """Also nothing that was on its way to the module before."""
    simulation = Simulation(1)
    thread, transport, told = Thread(simulation.clock), Transport(), list[News | CallEnd]()
    client = KubeClient(HttpKubeApi(transport), thread, thread.clock.random)
    client.watch(Selection(kind=kind_named("Pod")), told.append)
    client.call(RequestLane.NODE, ApiCall(verb="get", api_version="v1", plural="nodes", name="n1"), told.append)
    for _, listener in transport.started:
        listener.on_head(ResponseHead(200))
        listener.on_data(PAGE)
        listener.on_end()
    client.close()
    thread.run()
    client.list_again()
    simulation.run_for(600.0)
    thread.run()
    assert (told, len(transport.started)) == ([], 2)
