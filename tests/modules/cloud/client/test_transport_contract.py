"""The contract of `KubeTransport`, kept over HTTP and by the simulated network: the same service behind both."""

import os
import queue
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from beehive.http.http_server import HttpServer
from beehive.http.request import Request
from beehive.http.responses import Peer, Reply, Response, Stream
from beehive.runtime import Runtime, Threads
from modules.cloud.apiserver.endpoints.subscriptions import Subscription, Subscriptions
from modules.cloud.client.http.factory import http_transport
from modules.cloud.client.kubeconfig.model import ClusterEntry, Selected, UserEntry
from modules.cloud.client.transport import ApiRequest, KubeTransport, ResponseListener
from modules.cloud.client.transport_errors import KubeCutError, KubeDeadlineError, KubeProtocolError, KubeTransportError
from modules.cloud.storage.watch_history import ObjectChanged
from modules.lab.simulate.http_exchange import SimulatedExchange
from modules.lab.simulate.http_service import Serving
from tests.modules.cloud.client.servers import Heard, ManualClock
from tests.support.patience import PATIENCE

_OBJECT = ObjectChanged("ADDED", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"}})


class Service:
    """A service that echoes requests, keeps some waiting, and streams published changes."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.go_on = threading.Event()
        self.begun: queue.Queue[str] = queue.Queue()
        self.ended: queue.Queue[str] = queue.Queue()

    def serve(self, request: Request) -> Reply:
        """Answer a request by its path."""
        self.begun.put(request.path)
        if request.path == "/wait":
            assert self.go_on.wait(PATIENCE)
        if request.path == "/watch":
            subscription = self.subscriptions.subscribe("Pod")
            return Stream(
                "application/json",
                lambda peer: self._pieces(peer, subscription),
                lambda: self._done(subscription),
                lambda woken: self._steps(subscription, woken),
            )
        status = 404 if request.path == "/missing" else 200
        text = f"{request.method} {request.path} {request.first('limit')} {request.header('accept')}".encode()
        return Response(status, "application/json", text + b" " + request.body, headers=(("Warning", "w"),))

    def _pieces(self, peer: Peer, subscription: Subscription) -> Generator[bytes, None, None]:
        for step in self._steps(subscription, lambda: None):
            if isinstance(step, bytes):
                yield step
            elif peer.gone_within(step, subscription.descriptor):
                return

    def _steps(self, subscription: Subscription, woken: Callable[[], None]) -> Iterator[bytes | float]:
        subscription.wake(woken)
        while True:
            changes, ended = subscription.drain()
            yield from (f"{change.change}\n".encode() for change in changes)
            if ended:
                return
            yield PATIENCE

    def _done(self, subscription: Subscription) -> None:
        self.subscriptions.unsubscribe(subscription)
        self.ended.put("watch")


class Simulated:
    """A transport whose requests cross no socket (`KubeTransport`)."""

    def __init__(self, service: Service, runtime: Runtime) -> None:
        self._service = service
        self._runtime = runtime
        self._started: list[SimulatedExchange] = []
        self._is_closed = False

    def start(self, request: ApiRequest, listener: ResponseListener) -> SimulatedExchange:
        exchange = SimulatedExchange(request, listener, self._runtime, "the server")
        self._started.append(exchange)
        if self._is_closed:
            self.close()
        else:
            self._runtime.call(Serving(self._service, self._runtime, exchange).run, name="server")
        return exchange

    def close(self) -> None:
        self._is_closed = True
        for each in self._started:
            if not each.is_done:
                each.fail(KubeCutError("no response of the API server", "the server", "the client was closed"))


class Api:
    """A transport, and the service behind it."""

    def __init__(self, transport: KubeTransport, service: Service, clock: ManualClock) -> None:
        self.transport = transport
        self.service = service
        self.clock = clock

    def start(self, path: str = "/", method: str = "GET", **fields: Any) -> Heard:
        """Start a request; what its listener hears."""
        heard = Heard()
        self.transport.start(ApiRequest(method=method, path=path, **fields), heard)
        return heard


@contextmanager
def _over_http() -> Iterator[Api]:
    service, clock = Service(), ManualClock()
    listening = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(listening, service, clock, max_body=1024 * 1024)
    server.start()
    runtime = Threads(clock)
    entry = ClusterEntry(server=f"http://127.0.0.1:{server.port}")
    transport = http_transport(Selected(where="test", cluster=entry, user=UserEntry()), runtime, "cloudcore/1")
    try:
        yield Api(transport, service, clock)
    finally:
        service.go_on.set()
        transport.close()
        service.subscriptions.end_all()
        server.stop()
        runtime.close()


@contextmanager
def _simulated() -> Iterator[Api]:
    service, clock = Service(), ManualClock()
    runtime = Threads(clock)
    transport = Simulated(service, runtime)
    try:
        yield Api(transport, service, clock)
    finally:
        service.go_on.set()
        transport.close()
        runtime.close()


@pytest.fixture(params=[_over_http, _simulated], ids=["http", "simulated"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """Each transport."""
    make: Callable[[], Any] = request.param
    with make() as made:
        yield made


def test_a_request_is_answered(api: Api) -> None:
    """Method, query, headers and body arrive; status, headers in lower case and body come back."""
    heard = api.start("/x?limit=5", "PATCH", body=b"abc", headers=(("Accept", "a/b"), ("Content-Type", "c/d")))
    head = heard.next()
    assert (head.status, head.header("content-type"), head.header("warning")) == (200, "application/json", "w")
    assert (heard.next(), heard.next()) == (b"PATCH /x 5 a/b abc", "end")
    assert api.start("/missing").response()[0] == 404


def test_a_watch_comes_piece_by_piece_and_ends(api: Api) -> None:
    """Each change comes as it is published; the end of the server's stream is the response's."""
    heard = api.start("/watch", stream=True)
    assert heard.next().status == 200
    for _ in range(2):
        api.service.subscriptions.publish(_OBJECT)
        assert heard.next() == b"ADDED\n"
    api.service.subscriptions.end_all()
    assert heard.next() == "end"
    assert api.service.ended.get(timeout=PATIENCE) == "watch"


def test_a_cancelled_watch_ends_at_the_server(api: Api) -> None:
    """The listener gets nothing more, and the service learns of the end."""
    heard = Heard()
    exchange = api.transport.start(ApiRequest(method="GET", path="/watch", stream=True), heard)
    assert heard.next().status == 200
    exchange.cancel()
    assert api.service.ended.get(timeout=PATIENCE) == "watch"
    assert heard.is_silent
    assert api.start().response()[0] == 200


@pytest.mark.parametrize(("method", "is_unanswered"), [("GET", False), ("POST", True)])
def test_a_response_has_a_deadline(api: Api, method: str, is_unanswered: bool) -> None:
    """A write that was sent may have been carried out; a read changes nothing."""
    heard = api.start("/wait", method, timeout=5.0)
    assert api.service.begun.get(timeout=PATIENCE) == "/wait"
    api.clock.wait_for_timer(5.0)
    api.clock.go(5.0)
    error = heard.error()
    assert isinstance(error, KubeDeadlineError)
    assert error.is_unanswered == is_unanswered
    api.service.go_on.set()
    assert api.start().response()[0] == 200


def test_a_silent_watch_is_broken(api: Api) -> None:
    """The seconds count from the last piece; the deadline of the head does not end a stream."""
    heard = api.start("/watch", stream=True, silence=60.0, timeout=PATIENCE)
    assert heard.next().status == 200
    api.clock.wait_for_timer(60.0)
    api.clock.go(45.0)
    api.service.subscriptions.publish(_OBJECT)
    assert heard.next() == b"ADDED\n"
    api.clock.go(50.0)
    assert heard.is_silent
    api.clock.wait_for_timer(60.0)
    api.clock.go(60.0)
    error = heard.next()
    assert isinstance(error, KubeDeadlineError)
    assert "60 s" in str(error)
    assert api.service.ended.get(timeout=PATIENCE) == "watch"


def test_a_paused_watch_goes_on_later(api: Api) -> None:
    """Nothing comes while it is paused, and nothing is lost."""
    heard = Heard()
    exchange = api.transport.start(ApiRequest(method="GET", path="/watch", stream=True), heard)
    assert heard.next().status == 200
    exchange.pause()
    exchange.resume()
    api.service.subscriptions.publish(_OBJECT)
    assert heard.next() == b"ADDED\n"


def test_a_listener_that_fails_ends_its_request_only(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged without the query; others are served."""

    class Failing(Heard):
        def on_data(self, data: bytes) -> None:
            raise ValueError("of this test")

    failing = Failing()
    api.transport.start(ApiRequest(method="GET", path="/watch?secret", stream=True), failing)
    assert failing.next().status == 200
    api.service.subscriptions.publish(_OBJECT)
    assert api.service.ended.get(timeout=PATIENCE) == "watch"
    assert api.start().response()[0] == 200
    assert "the listener of GET /watch failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_request_that_is_not_http_is_an_error(api: Api) -> None:
    """A line feed in a header, or a space in the path, is refused; nothing was sent."""
    for heard in (api.start("/", "POST", headers=(("X", "a\nInjected: b"),)), api.start("/a b", "POST")):
        error = heard.error()
        assert isinstance(error, KubeProtocolError)
        assert not error.is_unanswered
        assert "Injected" not in str(error)
    assert api.start().response()[0] == 200


def test_closing_ends_everything(api: Api) -> None:
    """What is under way, and what comes later, hears an error."""
    watch = api.start("/watch", stream=True)
    assert watch.next().status == 200
    waits = api.start("/wait", "POST")
    assert {api.service.begun.get(timeout=PATIENCE) for _ in range(2)} == {"/wait", "/watch"}
    api.service.go_on.clear()
    api.transport.close()
    errors: list[KubeTransportError] = [heard.error() for heard in (waits, watch, api.start())]
    assert [type(error) for error in errors] == [KubeCutError] * 3
    assert [error.is_unanswered for error in errors] == [True, False, False]


def test_a_paused_response_of_the_simulation_waits_for_its_reader() -> None:
    """The server's end does not go on while the client does not read."""
    with _simulated() as api:
        heard = Heard()
        exchange = api.transport.start(ApiRequest(method="GET", path="/watch", stream=True), heard)
        assert heard.next().status == 200
        exchange.pause()
        for _ in range(5):
            api.service.subscriptions.publish(_OBJECT)
        assert heard.is_silent
        exchange.resume()
        assert [heard.next() for _ in range(5)] == [b"ADDED\n"] * 5


def test_subscriptions_are_closed_with_their_server() -> None:
    """A killed server's watches leave no descriptor."""
    subscriptions = Subscriptions()
    subscription = subscriptions.subscribe("Pod")
    descriptor = subscription.descriptor
    subscriptions.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(ValueError, match="closed"):
        _ = subscription.descriptor
