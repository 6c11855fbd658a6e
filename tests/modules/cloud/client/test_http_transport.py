"""The transport on real sockets: connections kept and cut, streams, deadlines, back-pressure."""

import queue
import socket
import threading

import pytest

from modules.cloud.client.http import exchange
from modules.cloud.client.http.pool import IDLE_SECONDS
from modules.cloud.client.transport import ApiRequest, Exchange, ResponseHead
from modules.cloud.client.transport_errors import (
    KubeConnectError,
    KubeCutError,
    KubeDeadlineError,
    KubeProtocolError,
    KubeTooLargeError,
    KubeTransportError,
)
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.client.servers import Heard, Peer, ScriptedServer, answering, client
from tests.support.patience import PATIENCE
from tests.support.ports import free_port, needs_ipv6


def test_requests_share_a_connection() -> None:
    """Several requests, one after another, need one connection."""
    with ScriptedServer(answering(body=b"yes")) as server, client(f"http://127.0.0.1:{server.port}") as api:
        assert [api.ask(f"/{each}") for each in range(3)] == [(200, b"yes")] * 3
        assert api.ask("/", "POST", body=b"{}") == (200, b"yes")
        assert server.connections == 1


def test_a_request_has_the_headers_of_a_client() -> None:
    """Host, User-Agent, Accept and Content-Length are added; the server's path stands before the request's."""
    seen: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()

    def script(peer: Peer) -> None:
        while True:
            head, body = peer.request()
            seen.put((head.target.decode(), {k.decode(): v.decode() for k, v in head.headers}, body))
            peer.answer()

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}/clusters/a/") as api:
        api.ask("/api/v1/pods?limit=5")
        host = {"host": f"127.0.0.1:{server.port}", "user-agent": "cloudcore/1"}
        assert seen.get(timeout=PATIENCE) == (
            "/clusters/a/api/v1/pods?limit=5", {**host, "accept": "application/json"}, b"",
        )  # fmt: skip
        api.ask("/x", "PATCH", body=b"abc", headers=(("Accept", "a/b"), ("Content-Type", "c/d")))
        wanted = {**host, "accept": "a/b", "content-type": "c/d", "content-length": "3"}
        assert seen.get(timeout=PATIENCE) == ("/clusters/a/x", wanted, b"abc")


@needs_ipv6
def test_an_ipv6_server() -> None:
    """A URL with brackets works."""
    with ScriptedServer(answering(), host="::1") as server, client(f"http://[::1]:{server.port}") as api:
        assert api.ask() == (200, b"{}")


def test_a_name_is_looked_up() -> None:
    """The name localhost has an address that answers, perhaps not its first."""
    with ScriptedServer(answering()) as server, client(f"http://localhost:{server.port}") as api:
        assert api.ask() == (200, b"{}")


def test_four_requests_at_a_time() -> None:
    """The fifth request waits until one of four connections is free."""
    begun: queue.Queue[str] = queue.Queue()
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        while True:
            head, _ = peer.request()
            begun.put(head.target.decode())
            assert go_on.wait(PATIENCE)
            peer.answer()

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        started = [api.start(f"/{each}") for each in range(6)]
        assert {begun.get(timeout=PATIENCE) for _ in range(4)} == {"/0", "/1", "/2", "/3"}
        assert begun.empty()
        go_on.set()
        assert [each.response()[0] for each in started] == [200] * 6
        assert server.connections == 4


def test_a_stream_does_not_take_the_place_of_requests() -> None:
    """Four streams that go on leave a connection for a request."""

    def script(peer: Peer) -> None:
        head, _ = peer.request()
        if b"watch" in head.target:
            peer.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            peer.closed()
        peer.answer()

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        streams = [api.start("/watch", stream=True) for _ in range(5)]
        assert [each.next().status for each in streams] == [200] * 5
        assert api.ask("/pods") == (200, b"{}")


def test_a_get_is_repeated_when_its_connection_was_closed() -> None:
    """The server closes a kept connection as the second request comes; a third party sees one response."""

    def once(peer: Peer) -> None:
        peer.request()
        peer.answer()
        peer.request()

    with ScriptedServer(once, answering(body=b"new")) as server, client(f"http://127.0.0.1:{server.port}") as api:
        assert api.ask() == (200, b"{}")
        assert api.ask() == (200, b"new")
        assert server.connections == 2


def test_a_get_is_repeated_on_a_new_connection() -> None:
    """Another kept one may have been closed, too."""
    both = threading.Barrier(2)

    def once(peer: Peer) -> None:
        peer.request()
        both.wait(PATIENCE)
        peer.answer()
        peer.request()

    last = answering(body=b"new")
    with ScriptedServer(once, once, last) as server, client(f"http://127.0.0.1:{server.port}") as api:
        for heard in (api.start(), api.start()):
            assert heard.response() == (200, b"{}")
        assert api.ask() == (200, b"new")
        assert server.connections == 3


def test_a_get_whose_answer_has_begun_is_not_repeated() -> None:
    """Its listener has heard the beginning."""

    def cut(peer: Peer) -> None:
        peer.request()
        peer.answer()
        peer.request()
        peer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")

    with ScriptedServer(cut, answering(body=b"new")) as server, client(f"http://127.0.0.1:{server.port}") as api:
        assert api.ask() == (200, b"{}")
        assert isinstance(api.start().error(), KubeCutError)
        assert server.connections == 1


def test_a_write_is_not_repeated() -> None:
    """A PATCH on a kept connection that is closed without an answer is an error: it may have been carried out."""

    def once(peer: Peer) -> None:
        peer.request()
        peer.answer()
        peer.request()

    with ScriptedServer(once, answering()) as server, client(f"http://127.0.0.1:{server.port}") as api:
        api.ask()
        error = api.start("/", "PATCH", body=b"{}").error()
        assert isinstance(error, KubeCutError)
        assert error.is_unanswered
        assert "unknown: read the object" in str(error)
        assert api.ask("/", "PATCH", body=b"{}") == (200, b"{}"), "the next has a new connection"
        assert server.connections == 2


def test_a_get_on_a_new_connection_is_not_repeated() -> None:
    """A server that closes each connection gets one request, and the client an error."""
    with ScriptedServer(lambda peer: peer.request() and None) as server:
        with client(f"http://127.0.0.1:{server.port}") as api:
            error = api.start().error()
            assert isinstance(error, KubeCutError)
            assert not error.is_unanswered
        assert server.connections == 1


def test_a_body_that_is_cut_is_an_error() -> None:
    """Half a body is no response."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        heard = api.start()
        assert heard.next().status == 200
        assert heard.next() == b"half"
        error = heard.next()
        assert isinstance(error, KubeCutError)
        assert "in the middle of a response" in str(error)


def test_a_connection_that_the_server_wants_to_close_is_not_kept() -> None:
    """`Connection: close` is obeyed, also where the server leaves the closing to the client."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.answer(headers=(("Connection", "close"),))
        ended.append(peer.closed())

    ended = list[bool]()
    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        assert [api.ask(), api.ask("/", "PUT", body=b"1")] == [(200, b"{}")] * 2
        wait_until(lambda: len(ended) == 2, "the client closes them")
        assert server.connections == 2


def test_a_paused_stream_is_not_silent() -> None:
    """Nothing is read from it; once it goes on, its server has the whole time again."""
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        assert go_on.wait(PATIENCE)
        peer.raw(b"1\r\nb\r\n")
        peer.closed()

    with ScriptedServer(script, answering()) as server, client(f"http://127.0.0.1:{server.port}") as api:
        heard = Heard()
        started = api.transport.start(ApiRequest(method="GET", path="/watch", stream=True, silence=60.0), heard)
        assert [heard.next().status, heard.next()] == [200, b"a"]
        api.clock.wait_for_timer(60.0)
        started.pause()
        for seconds in (60.0, 59.0):
            api.clock.go(seconds)
            assert api.ask()[0] == 200  # the transport's thread has had its turn
        started.resume()
        assert api.ask()[0] == 200
        api.clock.go(59.0)
        assert api.ask()[0] == 200
        assert heard.is_silent
        assert len(started.timers) == 1, "of a watch that lasts for months"
        go_on.set()
        assert heard.next() == b"b"


@pytest.mark.parametrize(("method", "is_unanswered"), [("GET", False), ("POST", True)])
def test_a_request_has_a_deadline(method: str, is_unanswered: bool) -> None:
    """After `timeout` seconds without the end of the response, the connection is closed."""
    asked, was_closed = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        asked.set()
        peer.closed()
        was_closed.set()

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        heard = api.start("/", method, timeout=5.0)
        assert asked.wait(PATIENCE)
        assert heard.next().status == 200
        api.clock.go(4.9)
        assert heard.next() == b"half"
        assert heard.is_silent
        api.clock.go(0.1)
        error = heard.next()
        assert isinstance(error, KubeDeadlineError)
        assert (error.is_unanswered, error.retryable) == (is_unanswered, True)
        assert was_closed.wait(PATIENCE)


def test_a_request_that_waits_has_its_deadline_as_well() -> None:
    """A request that has no connection in time was not sent, so that its effect is known: none."""
    begun = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.request()
        begun.release()
        peer.closed()

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        others = [api.start("/", "POST", timeout=PATIENCE) for _ in range(4)]
        for _ in others:
            assert begun.acquire(timeout=PATIENCE)
        late = api.start("/", "POST", timeout=3.0)
        api.clock.wait_for_timer(3.0)
        api.clock.go(3.0)
        error = late.error()
        assert isinstance(error, KubeDeadlineError)
        assert not error.is_unanswered


def test_a_paused_response_is_not_read() -> None:
    """The server's buffers fill while a response is paused, and it goes on when the response is resumed."""
    piece = b"x" * 65536
    count = 400
    is_paused = threading.Event()
    sent: queue.Queue[int] = queue.Queue()

    def script(peer: Peer) -> None:
        peer.request()
        peer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(piece) * count))
        assert is_paused.wait(PATIENCE)
        peer.socket.settimeout(0.5)
        left = memoryview(piece * count)
        is_told = False
        while left:
            try:
                left = left[peer.socket.send(left) :]
            except TimeoutError:
                if not is_told:
                    sent.put(len(piece) * count - len(left))
                    peer.socket.settimeout(PATIENCE)
                is_told = True

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        heard = Pausing()
        started = api.transport.start(ApiRequest(method="GET", path="/watch", stream=True), heard)
        heard.exchange.put(started)
        assert isinstance(heard.next(), ResponseHead)
        is_paused.set()
        assert sent.get(timeout=PATIENCE) < len(piece) * count, "the server had to wait"
        assert heard.is_silent
        started.resume()
        received = 0
        while (event := heard.next()) != "end":
            received += len(event)
        assert received == len(piece) * count


class Pausing(Heard):
    """Pauses its response at its head."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange: queue.Queue[Exchange] = queue.Queue()

    def on_head(self, head: ResponseHead) -> None:
        self.exchange.get(timeout=PATIENCE).pause()
        super().on_head(head)


@pytest.mark.parametrize("ends", [True, False])
def test_an_answer_may_come_before_the_request_was_read(ends: bool) -> None:
    """A server that refuses a long body by its head is understood, and its connection is not kept, whether it ends its
    side or not.
    """

    def script(peer: Peer) -> None:
        peer.socket.recv(1000)
        peer.raw(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        if ends:
            peer.socket.shutdown(socket.SHUT_WR)
        else:
            was_refused.wait(PATIENCE)
        peer.closed()

    was_refused = threading.Event()

    with ScriptedServer(script, answering()) as server, client(f"http://127.0.0.1:{server.port}") as api:
        assert api.ask("/", "POST", body=b"x" * 30_000_000) == (413, b"")
        heard = api.start()
        was_refused.set()
        assert heard.response() == (200, b"{}")
        assert server.connections == 2


def test_a_long_body_is_sent_whole() -> None:
    """Also when the server reads it slowly."""
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        assert go_on.wait(PATIENCE)
        _, body = peer.request()
        peer.answer(body=b"%d" % len(body))

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        heard = api.start("/", "PUT", body=b"x" * 30_000_000)
        go_on.set()
        assert heard.response() == (200, b"30000000")


def test_a_body_that_is_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response has a bound, here a small one; a stream has no bound."""
    monkeypatch.setattr(exchange, "MAX_BODY", 100_000)
    with ScriptedServer(answering(body=b"x" * 100_001)) as server, client(f"http://127.0.0.1:{server.port}") as api:
        error = api.start().error()
        assert isinstance(error, KubeTooLargeError)
        assert "ask for less, with a limit" in str(error)
        assert api.ask(stream=True) == (200, b"x" * 100_001)


@pytest.mark.parametrize(
    ("sent", "error", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n", KubeTooLargeError, ""),
        (b"220 mail.example ESMTP\r\n\r\n", KubeProtocolError, "not HTTP/1.1: check the server's URL"),
    ],
    ids=["more than 64 KiB of headers, even in one piece", "other bytes than HTTP"],
)
def test_a_head_that_cannot_be_read_is_an_error(sent: bytes, error: type[KubeTransportError], words: str) -> None:
    """The error says what to check."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.raw(sent)
        peer.closed()

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        told = api.start().error()
        assert isinstance(told, error)
        assert words in str(told)


def test_nobody_listens() -> None:
    """A refused connection says which server, and is tried again for each request."""
    port = free_port()
    with client(f"http://127.0.0.1:{port}") as api:
        for _ in range(2):
            error = api.start("/", "POST").error()
            assert isinstance(error, KubeConnectError)
            assert not error.is_unanswered
            assert f"http://127.0.0.1:{port} (connection refused" in str(error)


@pytest.mark.parametrize("stray", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_a_kept_connection_that_the_server_ends_is_closed(stray: bytes) -> None:
    """Before anybody uses it: a PATCH on it would have no known end."""
    is_kept, has_ended = threading.Event(), queue.Queue[bool]()

    def ends(peer: Peer) -> None:
        peer.request()
        peer.answer()
        assert is_kept.wait(PATIENCE)
        peer.raw(stray) if stray else peer.socket.shutdown(socket.SHUT_WR)
        has_ended.put(peer.closed())

    with ScriptedServer(ends, answering()) as server, client(f"http://127.0.0.1:{server.port}") as api:
        assert api.ask() == (200, b"{}")
        is_kept.set()
        assert has_ended.get(timeout=PATIENCE)
        assert api.ask("/", "PATCH", body=b"{}") == (200, b"{}")
        assert server.connections == 2


def test_each_idle_connection_is_closed_in_its_time() -> None:
    """One after the other; of five that become idle, the oldest is closed immediately."""
    asked, goes_on = queue.Queue[int](), [threading.Event() for _ in range(5)]
    closed = queue.Queue[int]()

    def script(peer: Peer) -> None:
        head, _ = peer.request()
        number = int(head.target[1:])
        asked.put(number)
        assert goes_on[number].wait(PATIENCE)
        peer.answer()
        peer.closed()
        closed.put(number)

    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        heard = [api.start(f"/{number}", stream=True) for number in range(5)]
        assert sorted(asked.get(timeout=PATIENCE) for _ in heard) == [0, 1, 2, 3, 4]
        for number in (2, 0, 1, 3):
            goes_on[number].set()
            assert heard[number].response() == (200, b"{}")
            api.clock.wait_for_timer(IDLE_SECONDS)
            api.clock.go(1.0)
        goes_on[4].set()
        assert heard[4].response() == (200, b"{}")
        assert closed.get(timeout=PATIENCE) == 2
        api.clock.go(IDLE_SECONDS - 4.0)
        for number in (0, 1, 3, 4):
            api.clock.wait_for_timer(1.0)
            api.clock.go(1.0)
            assert closed.get(timeout=PATIENCE) == number


def test_closing_ends_everything() -> None:
    """Requests under way, waiting ones and later ones get an error; the thread ends."""
    begun = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.request()
        begun.release()
        peer.closed()

    before = set(threading.enumerate())
    with ScriptedServer(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        started = [api.start() for _ in range(6)]
        for _ in range(4):
            assert begun.acquire(timeout=PATIENCE)
        api.transport.close()
        for heard in (*started, api.start()):
            error = heard.error()
            assert isinstance(error, KubeCutError)
            assert "the client was closed" in str(error)
        assert all(each.name != "kube-client" for each in set(threading.enumerate()) - before)
