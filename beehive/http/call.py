"""One call to an HTTP server: a connection of its own, one deadline for the whole call, and a bounded response."""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from beehive.clock import Clock
from beehive.errors import BeehiveError
from beehive.http.authority import authority
from beehive.http.client import ClientExchange
from beehive.http.errors import HttpError
from beehive.http.forwarding import Fields, passed_on
from beehive.sockets import dialling
from beehive.sockets.tls import default_client_context

_MAX_HEAD: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
_SWITCHING: Final = 101


class CallFailedError(BeehiveError):
    """An HTTP server has given no usable response.

    Args:
        on: the method and the address.
        why: the reason, in words.
        sent: whether the server may have received a part of the request.
        timed_out: whether the deadline has passed.
    """

    def __init__(self, on: str, why: str, *, sent: bool, timed_out: bool = False) -> None:
        super().__init__("no response from", on, why, retryable=not sent)
        self.why = why
        self.sent = sent
        self.timed_out = timed_out


class ServerRefusedError(CallFailedError):
    """Nothing was sent, because the caller refuses the address that a host's name has led to."""


class HttpCall(NamedTuple):
    """A request to a server."""

    method: str
    host: str
    port: int
    target: str
    """Path and query, encoded."""
    headers: Fields = ()
    """Without `Host`, `Connection` and `Content-Length`, which are added."""
    body: bytes = b""
    scheme: str = "http"

    @property
    def authority(self) -> str:
        """Host and port as in the header `Host`."""
        return authority(self.host, self.port, self.scheme)

    def __str__(self) -> str:
        return f"{self.method} {self.scheme}://{self.authority}{self.target.partition('?')[0]}"


class Secured(NamedTuple):
    """The TLS of a call, in place of the system's authorities and the host's name."""

    context: ssl.SSLContext
    name: str
    """The name that the server's certificate must have."""


class HttpReply(NamedTuple):
    """A server's response."""

    status: int
    headers: Fields
    """Names in lower case; without the connection's headers."""
    body: bytes


Refuses = Callable[[str, int], str]
"""Returns why nothing is sent to an address and port, or ""."""


def perform(
    call: HttpCall,
    clock: Clock,
    *,
    seconds: float,
    most_bytes: int,
    secured: Secured | None = None,
    refuses: Refuses = lambda *_: "",
) -> HttpReply:
    """Make a call and return the response, whatever its status; a redirect is a response like any other. Blocks.

    Args:
        call: the request.
        clock: for the deadline.
        seconds: for the connection, the request and the whole response.
        most_bytes: of the response's body.
        secured: for `https`; None verifies the server as browsers do.
        refuses: is given the address that the host's name has led to.

    Raises:
        CallFailedError: the server sent no response, or a broken or too long one.
    """
    sent = False
    deadline = clock.monotonic() + seconds

    def left() -> float:
        remaining = deadline - clock.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    try:
        exchange = ClientExchange(_MAX_HEAD)
        headers = [("Host", call.authority), *call.headers, ("Connection", "close")]
        request = exchange.request(call.method, call.target, headers, call.body)
        with _connected(call, clock, left, secured, refuses) as connection:
            connection.settimeout(left())
            sent = True
            _send(connection, request)

            def receive() -> bytes:
                connection.settimeout(left())
                return connection.recv(_READ_BYTES)

            head = exchange.read_head(receive)
            if head.status == _SWITCHING:
                raise CallFailedError(str(call), "it switches to another protocol", sent=True)
            body = exchange.read_body(receive, most_bytes + 1)
    except TimeoutError as error:
        raise CallFailedError(str(call), f"not within {seconds:g} s", sent=sent, timed_out=True) from error
    except HttpError as error:
        raise CallFailedError(str(call), error.reason, sent=sent) from error
    except (OSError, ValueError) as error:  # a host name may be none
        raise CallFailedError(str(call), _reason(error), sent=sent) from error
    if len(body) > most_bytes:
        raise CallFailedError(str(call), f"its response has more than {most_bytes} bytes", sent=True)
    return HttpReply(head.status, passed_on(head.fields), body)


@contextlib.contextmanager
def _connected(
    call: HttpCall, clock: Clock, left: Callable[[], float], secured: Secured | None, refuses: Refuses
) -> Iterator[socket.socket]:
    with dialling.connect(call.host, call.port, clock, left()) as plain:
        address, port = plain.getpeername()[:2]
        if why := refuses(address, port):
            raise ServerRefusedError(str(call), why, sent=False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a request follows TLS's last piece immediately
        if call.scheme != "https":
            yield plain
            return
        context, name = secured or Secured(default_client_context(), call.host)
        plain.settimeout(left())
        with context.wrap_socket(plain, server_hostname=name) as secure:
            yield secure


def _send(connection: socket.socket, request: bytes) -> None:
    """Send a request. If the server answers and closes the connection before it has read the whole request, its answer
    counts.
    """
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(request)


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
