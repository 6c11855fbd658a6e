"""`Network` on real sockets.

The two messages of grpc.health.v1 are encoded by hand: a generated module would cost the agent more than they weigh.
HealthCheckRequest has `string service = 1`, HealthCheckResponse `ServingStatus status = 1`.

h11 reads and writes the HTTP messages of `httpGet` probes and hooks. A probe takes 0.21 ms of processor time, with the
probed server; with string methods of our own it took 0.12 ms, but these guessed the end of a chunked body and took
malformed headers, which Go's client refuses for a kubelet. 110 pods with a probe every ten seconds pay 0.1 % of a core
for it.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from beehive import Clock
from beehive.files.descriptors import SHORTAGES
from beehive.http.authority import PORTS, authority
from beehive.http.errors import HttpError
from beehive.sockets import dialling
from beehive.sockets.near_addresses import is_near
from edged.errors import NetworkError, PlainAnswerError, ShortageError
from edged.probes.relay import relayed
from edged.probes.targets import GrpcTarget, HttpTarget, TcpTarget

if TYPE_CHECKING:
    from beehive.http.client import ClientExchange, ResponseHead
    from beehive.http.events import Receive

METHOD = "/grpc.health.v1.Health/Check"

_SERVICE = 0x0A
"""Field 1, length-delimited."""
_STATUS = 0x08
"""Field 1, varint."""
_SERVING = 1

_CHUNK = 4096
_NOT_IN_TIME = "not in time"
_NEAR = "that is this machine's own, a link-local or a metadata address, which pods do not reach: leave out host"
MAX_REDIRECTS = 10
_VISIBLE = "!$%&'()*+,/:;=?@[]~"
"""Characters that a path and its query keep, beside letters and digits; `%` because it may be quoted already."""


def encode_request(service: str) -> bytes:
    """Return a HealthCheckRequest."""
    name = service.encode()
    return bytes([_SERVICE]) + _varint(len(name)) + name if name else b""


def is_serving(answer: bytes) -> bool:
    """Return whether a HealthCheckResponse has the status SERVING. The status 0 (UNKNOWN) is not encoded at all."""
    return answer[:2] == bytes([_STATUS, _SERVING])


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "kube-probe/1.32"),
    ("grpc.max_receive_message_length", 16 * 1024),
)


Connect = Callable[[str, int, Clock, float], socket.socket]


class SocketNetwork:
    """A prober over real sockets.

    A probe waits for another process, so its deadlines are the sockets' own timeouts, as CRI calls have gRPC's;
    the remaining time is counted on the hive's clock. Addresses of pods are numeric and never looked up; the system's
    resolver looks up a host name in a probe.

    Args:
        clock: for deadlines.
        connect: returns a connection to a host and a port.
        isolates: whether pods have networks of their own, so that hosts which they chose are guarded.
    """

    def __init__(self, clock: Clock, connect: Connect = dialling.connect, *, isolates: bool = True) -> None:
        self._clock = clock
        self._connect = connect
        self._isolates = isolates

    def http_get(self, target: HttpTarget, seconds: float) -> int:
        """As in the contract. Follows at most ten redirects, to the same host only."""
        deadline = _Deadline(self._clock, seconds)
        for _ in range(MAX_REDIRECTS + 1):
            with _problems("get", f"{target.scheme}://{target.host}:{target.port}"):
                head = self._get(target, deadline)
            following = redirected(target, head)
            if following is None:
                return head.status
            target = following
        raise NetworkError("get", f"{target.host}:{target.port}", f"stopped after {MAX_REDIRECTS} redirects")

    def tcp_connect(self, target: TcpTarget, seconds: float) -> None:
        """As in the contract."""
        with _problems("connect", f"{target.host}:{target.port}"):
            self._connection(target, seconds).close()

    def grpc_serves(self, target: GrpcTarget, seconds: float) -> bool:
        """As in the contract. A server without a health service does not serve."""
        import grpc  # noqa: PLC0415 - 21 MB, with the first such probe

        with contextlib.ExitStack() as stack:
            address = f"{'ipv6' if ':' in target.host else 'ipv4'}:{authority(target.host, target.port)}"
            if self._connect is not dialling.connect:  # gRPC connects by itself
                with _problems("connect", f"{target.host}:{target.port}"):
                    connection = self._connect(target.host, target.port, self._clock, seconds)
                    address = stack.enter_context(relayed(connection))
            channel = stack.enter_context(grpc.insecure_channel(address, options=_CHANNEL_OPTIONS))
            check = channel.unary_unary(METHOD)
            try:
                answer: bytes = check(encode_request(target.service), timeout=seconds)
            except grpc.RpcError as error:
                attempt, on = "check the health of", f"{target.host}:{target.port}"
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    with _problems(attempt, on):  # the code is the same when the agent is short of descriptors
                        socket.socket().close()
                raise NetworkError(attempt, on, error.code().name) from None
        return is_serving(answer)

    def _connection(self, target: HttpTarget | TcpTarget, seconds: float) -> socket.socket:
        """Return a connection to a target. A host that the pod chose is looked up once, so that the name means the same
        address when it is checked and when it is asked. Its other addresses are asked if the first does not answer.
        """
        if not (target.is_guarded and self._isolates):
            return self._connect(target.host, target.port, self._clock, seconds)
        until = self._clock.monotonic() + seconds
        found = (str(each.address[0]) for each in dialling.attempts(target.host, target.port, self._clock, seconds))
        far = [each for each in found if not is_near(each)]
        failure: OSError = ConnectionRefusedError(_NEAR)
        for index, address in enumerate(far):
            share = (until - self._clock.monotonic()) / (len(far) - index)
            try:
                return self._connect(address, target.port, self._clock, share)
            except OSError as error:
                failure = error
        raise failure

    def _get(self, target: HttpTarget, deadline: "_Deadline") -> "ResponseHead":
        from beehive.http.client import ClientExchange  # noqa: PLC0415 - h11, with the first HTTP probe

        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._connection(target, deadline.left()))
            if target.scheme == "https":
                connection.settimeout(deadline.left())
                connection = stack.enter_context(_encrypted(connection, target.host))
            connection.settimeout(deadline.left())
            exchange = ClientExchange(MAX_HEAD)
            connection.sendall(exchange.request("GET", request_path(target.path), request_headers(target)))
            return _read_response(exchange, lambda: _receive(connection, deadline))


class _Deadline:
    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + seconds

    def left(self) -> float:
        """Return the remaining seconds. Raises TimeoutError when none remain."""
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError(_NOT_IN_TIME)
        return left


def _encrypted(connection: socket.socket, host: str) -> socket.socket:
    """Wrap the connection in TLS, without verifying the container's certificate (as in a kubelet's probes)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    is_name = any(letter.isalpha() for letter in host) and ":" not in host
    return context.wrap_socket(connection, server_hostname=host if is_name else None)


def _read_response(exchange: "ClientExchange", receive: "Receive") -> "ResponseHead":
    """Return the head of the response, and read up to `MAX_BODY` bytes of the body, so that the server can end it."""
    head = exchange.read_head(receive)
    with contextlib.suppress(ConnectionError, HttpError):
        exchange.read_body(receive, MAX_BODY)
    return head


def _receive(connection: socket.socket, deadline: _Deadline) -> bytes:
    connection.settimeout(deadline.left())
    return connection.recv(_CHUNK)


@contextlib.contextmanager
def _problems(attempt: str, on: str) -> Iterator[None]:
    """Turn the errors of sockets into a NetworkError; an invalid host is a UnicodeError or ValueError."""
    try:
        yield
    except TimeoutError:
        raise NetworkError(attempt, on, _NOT_IN_TIME) from None
    except HttpError as error:
        raise NetworkError(attempt, on, error.reason) from error
    except (OSError, UnicodeError, OverflowError) as error:
        kind: type[NetworkError] = NetworkError
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            kind = ShortageError
        elif isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
            kind = PlainAnswerError
        raise kind(attempt, on, str(error)) from error


MAX_HEAD = 64 * 1024
"""Bytes of a response's head that are read at most."""
MAX_BODY = 10 * 1024
"""Bytes of a body that are read at most (kubelet's maxRespBodyLength)."""

_REDIRECTS = (301, 302, 303, 307, 308)
_EXCLUDED = ("host", "connection", "content-length", "transfer-encoding", "trailer")
"""Headers that the request sets itself or a GET without a body cannot have (Go's reqWriteExcludeHeader)."""


def request_headers(target: HttpTarget) -> list[tuple[str, str]]:
    """Return all headers of the request for a target, `Host` first."""
    given = {name.lower(): value for name, value in target.headers}
    return [
        ("Host", given.get("host", "").strip() or authority(target.host, target.port, target.scheme)),
        *((name, value.strip()) for name, value in target.headers if name.lower() not in _EXCLUDED),
        ("Connection", "close"),
    ]


def request_path(path: str) -> str:
    """Return a path with its query, quoted for the request line and without its fragment."""
    text = path.partition("#")[0]
    return quote(text if text.startswith("/") else f"/{text}", safe=_VISIBLE)


def redirected(target: HttpTarget, head: "ResponseHead") -> HttpTarget | None:
    """Return the target of a redirect, None for another response and for a redirect to another host.

    Another host's answer would not be the container's (kubelet's RedirectChecker).
    """
    location = head.headers.get("location", "")
    if head.status not in _REDIRECTS or not location:
        return None
    base = f"{target.scheme}://{authority(target.host, target.port, target.scheme)}{request_path(target.path)}"
    try:
        split = urlsplit(urljoin(base, location))
        port = split.port or PORTS.get(split.scheme, 0)
    except ValueError:
        return None
    if split.scheme not in PORTS or split.hostname != target.host.lower():
        return None
    path = split.path + (f"?{split.query}" if split.query else "")
    return msgspec.structs.replace(target, scheme=split.scheme, port=port, path=path)
