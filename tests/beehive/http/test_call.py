"""One call of a server, on real sockets."""

import socket

import pytest

from beehive.clock import RealClock
from beehive.http.call import CallFailedError, HttpCall, HttpReply, ServerRefusedError, perform
from beehive.http.forwarding import from_wire, passed_on, to_wire
from tests.support.clocks import Ahead
from tests.support.http_application import HttpApplication, raw_server
from tests.support.ports import free_port, full_backlog

CLOCK = RealClock()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def call(
    port: int, method: str = "GET", body: bytes = b"", seconds: float = 60.0, clock: RealClock = CLOCK
) -> HttpReply:
    """Call a server on this machine."""
    request = HttpCall(method, "127.0.0.1", port, "/a?b=1", (("X-Mine", "1"),), body)
    return perform(request, clock, seconds=seconds, most_bytes=1000)


def test_a_call_and_its_response() -> None:
    """Method, path, headers and body arrive, and so does the response."""
    with HttpApplication() as application:
        reply = call(application.port, "POST", b"hello")
        assert (reply.status, reply.body) == (200, b"POST /a?b=1 hello")
        (heard,) = application.heard
        assert heard.headers["x-mine"] == "1"
        assert heard.headers["host"] == f"127.0.0.1:{application.port}"


def test_a_redirect_is_a_response() -> None:
    """Nobody is called in its place."""
    with HttpApplication(lambda _heard: (302, {"Location": "http://192.0.2.1/"}, b"")) as application:
        reply = call(application.port)
    assert (reply.status, dict(reply.headers)["location"]) == (302, "http://192.0.2.1/")
    assert len(application.heard) == 1


def test_an_address_that_the_caller_refuses_gets_no_byte() -> None:
    """It is given the one that the name has led to."""
    with HttpApplication() as application:
        request = HttpCall("GET", "localhost", application.port, "/", (), b"")
        with pytest.raises(ServerRefusedError, match=r"not 127\.0\.0\.1"):
            perform(request, CLOCK, seconds=60.0, most_bytes=1000, refuses=lambda address, _port: f"not {address}")
    assert application.heard == []


def test_a_refused_connection_is_an_error_before_any_byte() -> None:
    """So the call may be repeated."""
    with pytest.raises(CallFailedError) as caught:
        call(free_port())
    assert (caught.value.sent, caught.value.retryable) == (False, True)


def test_a_name_that_no_host_can_have_is_an_error_before_any_byte() -> None:
    """What refuses it is no error of the system, and says why all the same."""
    with pytest.raises(CallFailedError, match=r"ordinal|label") as caught:
        perform(HttpCall("GET", "é" * 64, 80, "/"), CLOCK, seconds=60.0, most_bytes=1000)
    assert not caught.value.sent


def test_after_an_address_that_does_not_answer_the_next_one_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with IPv6 that leads nowhere: the first address took all of the time. The others make its share short."""
    with full_backlog() as silent, HttpApplication() as application:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
            for port in (silent, *[application.port] * 39)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert call(application.port, seconds=4.0).status == 200


def test_a_server_that_stalls_ends_with_the_time() -> None:
    def stall(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    with raw_server(stall) as port, pytest.raises(CallFailedError) as caught:
        call(port, seconds=0.2)
    assert caught.value.timed_out


def test_a_server_that_sends_a_byte_now_and_then_ends_with_the_time() -> None:
    """It is for all of the response."""
    clock = Ahead()

    def stall(connection: socket.socket) -> None:
        connection.recv(65536)
        clock.seconds = 60.0
        connection.sendall(HEAD[:1])
        connection.recv(65536)

    with raw_server(stall) as port, pytest.raises(CallFailedError) as caught:
        call(port, seconds=60.0, clock=clock)
    assert (caught.value.sent, caught.value.timed_out) == (True, True)


def test_ten_gigabytes_are_not_read() -> None:
    """The call reads no more than the bound and one more chunk, whatever Content-Length says."""
    sent = 0

    def flood(connection: socket.socket) -> None:
        nonlocal sent
        connection.recv(65536)
        connection.sendall(HEAD + b"Content-Length: 10000000000\r\n\r\n")
        while sent < 10_000_000_000:
            sent += connection.send(bytes(65536))

    with raw_server(flood) as port, pytest.raises(CallFailedError, match="more than 1000 bytes"):
        call(port)
    assert sent < 100_000_000


@pytest.mark.parametrize("more", [0, 1])
def test_a_body_that_is_too_long_is_not_cut_off(more: int) -> None:
    """Also where a piece ends at the bound."""

    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + b"x" * 1000 + b"\r\n")
        connection.sendall(b"1\r\ny\r\n" * more + b"0\r\n\r\n")

    with raw_server(answer) as port:
        if more:
            with pytest.raises(CallFailedError, match="more than 1000 bytes"):
                call(port)
        else:
            assert call(port).body == b"x" * 1000


def test_a_request_that_was_not_sent_in_time_may_have_been_received_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the call is not repeated."""

    def stall(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("beehive.http.call._send", stall)
    with HttpApplication() as application, pytest.raises(CallFailedError) as caught:
        call(application.port, "POST", b"hello")
    assert (caught.value.sent, caught.value.timed_out, caught.value.retryable) == (True, True, False)


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n", HEAD, HEAD + b"Content-Length: 10\r\n\r\nabc",
     HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz",
     b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"],
    ids=["nothing", "ssh", "half a head", "half a body", "no chunk", "another protocol"],
)  # fmt: skip
def test_bytes_that_are_not_a_response_are_an_error(answer: bytes) -> None:
    def cut(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with raw_server(cut) as port, pytest.raises(CallFailedError) as caught:
        call(port)
    assert caught.value.sent


def test_headers_of_a_connection_stay_behind() -> None:
    """So do headers that `Connection` names, and invalid ones."""
    given = [
        ("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("Host", "a"), ("Content-Length", "3"), ("TE", "trailers"),
        ("Accept", "*/*"), ("Bad Name", "x"), ("X-Break", "a\r\nX: b"), ("Authorization", "Bearer t"), ("A", "1"),
        ("A", "2"),
    ]  # fmt: skip
    kept = passed_on(given, "authorization")
    assert kept == (("Accept", "*/*"), ("A", "1"), ("A", "2"))
    assert to_wire((("x-mine", "1"), *kept)) == {"X-Mine": ["1"], "Accept": ["*/*"], "A": ["1", "2"]}
    assert from_wire({"A": ["1", "2"]}) == (("A", "1"), ("A", "2"))
