"""Requests to pods, and their answers, over a connection that the test drives on the pod's side."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from beehive.clock import RealClock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Reply
from beehive.http.spdy import SpdyConnection, StreamData, StreamOpened
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import websocket_context
from modules.cloud.cloudstream import proxying
from modules.cloud.cloudstream.pod_connection import pod_connection
from modules.cloud.cloudstream.proxy_rules import LONGEST_PAGE
from modules.cloud.cloudstream.proxying import ProxiedRequest, proxied
from modules.cloud.cloudstream.relay import RelayedStream
from modules.streams.small_turns import SmallTurns
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE

PORT = PodPort("default", "web", 8080, has_tls=False, host="10.0.0.2")
PREFIX = "/p/proxy"
_WEB_SOCKET = b"GET /ws HTTP/1.1\r\nHost: c\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
_READ = 65_536
_LITTLE = 1000
"""Bytes that a node takes at a time."""


class NodeStream:
    """A node's stream of port forwarding (`RelayedStream`): a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(0)
        self.failure = ""
        self.is_over = False
        self.room = _LITTLE
        self.closed = threading.Event()

    def fileno(self) -> int:
        return self.connection.fileno()

    def receive(self, _now: float) -> bytes:
        try:
            data = self.connection.recv(_READ)
        except BlockingIOError:
            return b""
        self.is_over = not data
        return data

    def send(self, data: bytes) -> None:
        assert 0 < len(data) <= self.room
        self.connection.settimeout(PATIENCE)
        self.connection.sendall(data)
        self.connection.settimeout(0)

    def close(self) -> None:
        self.connection.close()
        self.closed.set()


class PodEnd:
    """The pod's side of the connection, as a socket: what a runtime does for port forwarding."""

    def __init__(self, node: socket.socket, error: bytes = b"") -> None:
        self.opened: list[dict[str, str]] = []
        self._node = node
        self._error = error
        self.socket, self._inner = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self._streams: dict[str, int] = {}
        self._spdy = SpdyConnection(is_server=True)
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._to_pod, self._from_pod)]
        for each in self._threads:
            each.start()

    def close(self) -> None:
        self.socket.close()
        with suppress(OSError):
            self._node.shutdown(socket.SHUT_RDWR)
        for each in self._threads:
            each.join(PATIENCE)
        self._node.close()
        self._inner.close()

    def _flush(self) -> None:
        with suppress(OSError):
            self._node.sendall(self._spdy.unsent)
        self._spdy.unsent.clear()

    def _to_pod(self) -> None:
        self._node.settimeout(None)
        with suppress(OSError):
            while data := self._node.recv(_READ):
                with self._lock:
                    for event in self._spdy.receive(data):
                        if isinstance(event, StreamOpened):
                            self.opened.append(event.headers)
                            self._streams[event.headers["streamtype"]] = event.stream
                            self._spdy.accept(event.stream)
                        elif isinstance(event, StreamData):
                            self._inner.sendall(event.data)
                    self._flush()
                if len(self._streams) > 1:
                    self._ready.set()
        self._ready.set()
        with suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    def _from_pod(self) -> None:
        self._ready.wait(PATIENCE)
        if self._error:
            with self._lock:
                self._spdy.send(self._streams["error"], self._error, last=True)
                self._spdy.send(self._streams["data"], b"", last=True)
                self._flush()
            return
        with suppress(OSError):
            while data := self._inner.recv(_READ):
                with self._lock:
                    self._spdy.send(self._streams["data"], data)
                    self._flush()
            with self._lock:
                self._spdy.send(self._streams["data"], b"", last=True)
                self._flush()


class Site:
    """A server whose every request is proxied to a pod that the test is."""

    def __init__(self, port: PodPort = PORT, error: bytes = b"") -> None:
        self.port = port
        self.error = error
        self.clock = RealClock()
        self.pods: list[PodEnd] = []
        self.streams: list[NodeStream] = []
        self.refused: list[ApiStatusError] = []
        self.connected = threading.Event()
        self.server = HttpServer(listen_tcp("127.0.0.1", 0), self, self.clock, max_body=1 << 22)
        self.server.start()

    def serve(self, request: Request) -> Reply:
        """Every path is the pod's."""
        try:
            return proxied(self._connect, self.port, ProxiedPath(PREFIX, request.target), request, self.clock)
        except ApiStatusError as error:
            self.refused.append(error)
            return error.response()

    def _connect(self) -> RelayedStream:
        ours, theirs = socket.socketpair()
        self.streams.append(NodeStream(ours))
        self.pods.append(PodEnd(theirs, self.error))
        self.connected.set()
        return pod_connection(self.streams[-1], b"", self.port)

    @contextmanager
    def client(self, request: bytes) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A client that has sent a request, and the pod's socket."""
        with socket.create_connection(("127.0.0.1", self.server.port), PATIENCE) as connection:
            connection.sendall(request)
            assert self.connected.wait(PATIENCE)
            yield connection, self.pods[-1].socket

    def close(self) -> None:
        for each in self.pods:
            each.close()
        self.server.stop()
        self.clock.close()


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as made:
        yield made


def _until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        data = connection.recv(_READ)
        assert data, found
        found += data
    return found


def _all(connection: socket.socket) -> bytes:
    found = bytearray()
    while data := connection.recv(_READ):
        found += data
    return bytes(found)


def test_a_request_and_its_answer(site: Site) -> None:
    """Both bodies are more than the node takes at a time."""
    body = bytes(100_000)
    request = b"PUT /a?b HTTP/1.1\r\nHost: c\r\nCookie: d\r\nContent-Length: %d\r\n\r\n" % len(body)
    with site.client(request + body) as (client, pod):
        asked = _until(pod, b"\r\n\r\n")
        while len(asked.partition(b"\r\n\r\n")[2]) < len(body):
            asked += pod.recv(_READ)
        head = asked.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        assert head[0] == "PUT /a?b HTTP/1.1"
        assert sorted(head[1:]) == [
            "Content-Length: 100000", "Host: 10.0.0.2:8080", "X-Forwarded-Host: c", "X-Forwarded-Uri: /p/proxy/a",
        ]  # fmt: skip
        pod.sendall(
            b"HTTP/1.1 201 Made\r\nContent-Type: a/b\r\nContent-Length: %d\r\nSet-Cookie: x\r\n\r\n" % len(body)
        )
        pod.sendall(body)
        pod.close()
        answer = _all(client)
    head_, _, received = answer.partition(b"\r\n\r\n")
    assert received == body
    assert head_.startswith(b"HTTP/1.1 201 ")
    assert b"ontent-Length: 100000" in head_ and b"sandbox" in head_ and b"ookie" not in head_
    assert [(each["streamtype"], each["port"]) for each in site.pods[0].opened] == [("error", "8080"), ("data", "8080")]
    assert site.streams[0].closed.wait(PATIENCE)


def test_an_answer_comes_as_the_pod_sends_it(site: Site) -> None:
    """Without a length, and piece by piece."""
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        assert _until(client, b"one").startswith(b"HTTP/1.1 200 ")
        pod.sendall(b"3\r\ntwo\r\n0\r\n\r\n")
        assert _until(client, b"0\r\n\r\n").count(b"two") == 1


def test_of_an_answer_with_two_lengths_the_chunks_count(site: Site) -> None:
    """As in Go's proxy. Each one was an ERROR with a traceback in cloudcore's log, and no answer."""
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
        answer = _until(client, b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"ontent-Length" not in answer


def test_a_page_has_its_links_changed(site: Site) -> None:
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<a href="/">')
        assert b'<a href="/p/proxy/">' in _all(client)


def test_a_long_page_passes_as_it_is(site: Site) -> None:
    page = b'<a href="/">' + bytes(LONGEST_PAGE)
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page))
        threading.Thread(target=pod.sendall, args=(page,), daemon=True).start()
        assert b'<a href="/">' in _all(client)


def test_the_answer_to_head_has_no_body(site: Site) -> None:
    with site.client(b"HEAD / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
        head, _, body = _all(client).partition(b"\r\n\r\n")
    assert (b"ontent-Length: 7" in head, body) == (True, b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + bytes(200_000),
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 101 + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["none", "other", "long", "unwanted-switch", "hints"],
)
def test_what_is_no_answer_is_an_error(site: Site, answer: bytes) -> None:
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")

        def say() -> None:
            with suppress(OSError):
                pod.sendall(answer)
                pod.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=say, daemon=True)
        thread.start()
        received = _all(client)
        site.pods[0].close()
        thread.join(PATIENCE)
    assert received.startswith(b"HTTP/1.1 503 "), received
    assert b"error trying to reach service: pod default/web, port 8080" in received


def test_a_write_is_not_sent_on_to_another_path(site: Site) -> None:
    with site.client(b"DELETE /a HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 307 No\r\nLocation: https://c/api/v1/namespaces/a\r\nContent-Length: 0\r\n\r\n")
        answer = _all(client)
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"pod web redirects a DELETE to a place outside of it" in answer
    assert b"ocation:" not in answer


def test_an_answer_that_breaks_off_breaks_off(site: Site) -> None:
    """It never looks whole."""
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        _until(client, b"one")
        pod.close()
        rest = b""
        with suppress(ConnectionResetError):
            rest = _all(client)
        assert b"0\r\n\r\n" not in rest


def test_a_port_that_refuses_is_an_error() -> None:
    """With the runtime's reason."""
    request = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
    with closing(Site(error=b"connection refused")) as site, site.client(request) as (client, _):
        received = _all(client)
    assert received.startswith(b"HTTP/1.1 503 ")
    assert b"port 8080: connection refused" in received


def test_a_silent_pod_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxying.ProxiedRequest.head, "__defaults__", (0.1,))
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, _):
        assert _all(client).startswith(b"HTTP/1.1 504 ")
    assert site.streams[0].closed.wait(PATIENCE)


def test_a_client_that_goes_ends_the_request(site: Site) -> None:
    """Also before the pod has answered."""
    with site.client(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (_, pod):
        _until(pod, b"\r\n\r\n")
    assert site.streams[0].closed.wait(PATIENCE)
    assert pod.recv(1) == b""


def test_an_upgrade_switches_the_protocol(site: Site) -> None:
    """A WebSocket's, for instance; afterwards bytes pass as they come."""
    request = (
        b"GET /ws HTTP/1.1\r\nHost: c\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
    )
    with site.client(request) as (client, pod):
        asked = _until(pod, b"\r\n\r\n").lower()
        assert b"upgrade: websocket" in asked and b"connection: upgrade" in asked and b"sec-websocket-key: k" in asked
        pod.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Set-Cookie: a\r\nSec-WebSocket-Accept: s\r\n\r\nfirst"
        )
        answer = _until(client, b"first").lower()
        assert answer.startswith(b"http/1.1 101 ") and b"sec-websocket-accept: s" in answer and b"cookie" not in answer
        client.sendall(b"of the client")
        assert _until(pod, b"of the client")
        pod.sendall(b"of the pod")
        pod.close()
        assert _all(client) == b"of the pod"


def test_a_refused_upgrade_is_an_answer(site: Site) -> None:
    """The connection is not the pod's: the next request on it is the API server's (CVE-2018-1002105)."""
    with site.client(_WEB_SOCKET) as (client, pod):
        _until(pod, b"\r\n\r\n")
        pod.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\nSet-Cookie: a\r\n\r\nno")
        answer = _all(client)
    assert answer.startswith(b"HTTP/1.1 403 ") and answer.endswith(b"no") and b"Cookie" not in answer
    assert site.streams[0].closed.wait(PATIENCE)


def test_a_pod_with_tls(tmp_path: Path) -> None:
    """Its certificate is not verified: no authority knows it."""
    clock = RealClock()
    files = AuthorityFiles(tmp_path / "tls")
    open_authority(files, ["127.0.0.1"], clock.now())
    clock.close()
    context = websocket_context(files)
    context.verify_mode = ssl.CERT_NONE
    body = bytes(100_000)
    with closing(Site(PORT._replace(has_tls=True))) as site:
        request = b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n" % len(body)
        with site.client(request + body) as (client, raw), context.wrap_socket(raw, server_side=True) as pod:
            asked = b""
            while len(asked.partition(b"\r\n\r\n")[2]) < len(body):
                asked += pod.recv(_READ)
            pod.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            answer = _all(client)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(body)


def test_a_pod_without_tls_where_it_is_wanted() -> None:
    request = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
    with closing(Site(PORT._replace(has_tls=True))) as site, site.client(request) as (client, pod):
        pod.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        answer = _all(client)
    assert answer.startswith(b"HTTP/1.1 503 ") and b"TLS of the pod has failed" in answer


class Saying:
    """A pod's connection that says all at once (`RelayedStream`)."""

    failure, is_over, room = "", True, 1 << 20

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def fileno(self) -> int:
        return -1

    def receive(self, _now: float) -> bytes:
        data, self._answer = self._answer, b""
        return data

    def send(self, data: bytes) -> None:
        """Take what is asked."""

    def close(self) -> None:
        """Do nothing."""


class Reading(Saying):
    """A pod's connection that takes a little of a request at a time, and answers when it has all."""

    is_over, room = False, _LITTLE

    def __init__(self, answer: bytes, size: int) -> None:
        super().__init__(answer)
        self._left = size

    def receive(self, now: float) -> bytes:
        return b"" if self._left > 0 else super().receive(now)

    def send(self, data: bytes) -> None:
        self.room, self._left = 0, self._left - len(data)


def test_a_pod_that_reads_a_long_request_slowly_is_not_silent() -> None:
    """What is sent on counts as a sign of life, however long it takes."""
    clock, waited = StandingClock(), list[float]()
    stream = Reading(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 10 * _LITTLE)

    def wait(_descriptor: int | None, limit: float) -> bool:
        waited.append(limit)
        clock.go(6)
        stream.room = _LITTLE
        return False

    request = Request(method="POST", target="/", parts=(), body=b"x" * 10 * _LITTLE)
    asked = ProxiedRequest(stream, PORT, ProxiedPath(PREFIX, "/"), request, clock)
    assert asked.head(wait, 10.0).status == 200
    assert len(waited) >= 9


class Trickling(Saying):
    """A pod's connection that says a byte each second (`RelayedStream`), and the `poll` that waits for it."""

    is_over = False

    def __init__(self, answer: bytes, clock: StandingClock) -> None:
        super().__init__(answer)
        self._clock = clock
        self._next = 0.0

    def receive(self, now: float) -> bytes:
        if now < self._next:
            return b""
        self._next = now + 1.0
        data, self._answer = self._answer[:1], self._answer[1:]
        return data

    def register(self, *_: int) -> None:
        """Do nothing."""

    def poll(self, milliseconds: float) -> None:
        self._clock.go(1.0 if self._answer else milliseconds / 1000)


_REFUSED = b"HTTP/1.1 403 No\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", ApiStatusError),
        (_REFUSED + b"x" * 100, ConnectionAbortedError),
        (_REFUSED, ConnectionAbortedError),
    ],
    ids=["head", "refusal", "silence"],
)
def test_a_pod_has_so_long_for_the_whole_answer_to_an_upgrade(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, error: type[Exception]
) -> None:
    """Its connection makes no room for others meanwhile, also when the client has gone."""
    clock = StandingClock()
    began, stream = clock.monotonic(), Trickling(answer, clock)
    monkeypatch.setattr(ProxiedRequest.__init__, "__defaults__", (SmallTurns(),))  # this clock goes ahead of others
    monkeypatch.setattr("select.poll", lambda: stream)
    request = Request(method="GET", target="/ws", parts=("ws",), headers=(("upgrade", "websocket"),))
    with pytest.raises(error):
        proxied(lambda: stream, PORT, ProxiedPath(PREFIX, "/ws"), request, clock)
    assert clock.monotonic() - began <= proxying.UPGRADE_SECONDS + 1


@pytest.mark.parametrize(("size", "pieces", "seconds"), [(1, 40, 2.4), (10_000, 1, 0.0)])
def test_an_answer_in_small_chunks_is_passed_on_in_larger_pieces_and_so_many_a_second(
    size: int, pieces: int, seconds: float
) -> None:
    """Sixteen readers of chunks of one byte took the interpreter: each chunk was read, encrypted and sent alone."""
    chunks = 10_000 if size == 1 else 4
    body = (b"%x\r\n" % size + b"x" * size + b"\r\n") * chunks
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    waited: list[float] = []

    def wait(descriptor: int | None, limit: float) -> bool:
        assert descriptor is None
        waited.append(limit)
        clock.go(limit)
        return False

    clock = StandingClock()
    request = Request(method="GET", target="/", parts=())
    turns = SmallTurns(rate=1000, burst=100)
    asked = ProxiedRequest(Saying(head + body + b"0\r\n\r\n"), PORT, ProxiedPath(PREFIX, "/"), request, clock, turns)
    found = list(asked.pieces(asked.head(wait), wait))
    assert (len(found), sum(map(len, found))) == (pieces, size * chunks)
    assert round(sum(waited), 6) == seconds


@pytest.mark.parametrize("headers", [(("upgrade", "websocket"),), (("upgrade", "web\nsocket"),)])
def test_a_request_without_an_answer_leaves_no_connection(headers: tuple[tuple[str, str], ...]) -> None:
    """Neither one that cannot be sent, nor one that the pod does not answer: its stream would stay at the node."""
    ours, theirs = socket.socketpair()
    theirs.close()
    stream = NodeStream(ours)
    request = Request(method="GET", target="/ws", parts=("ws",), headers=headers)
    with pytest.raises(ApiStatusError):
        proxied(lambda: stream, PORT, ProxiedPath(PREFIX, "/ws"), request, StandingClock())
    assert stream.closed.is_set()
