"""`Network` on real sockets.

What is waited for is another process, so the deadlines are the sockets' own, as those of CRI calls are gRPC's; how much
of one is left is counted on the hive's clock. Addresses of pods are numbers and are never looked up; the name of a host
that a probe states itself is, by the system's resolver.
"""

import contextlib
import socket
from collections.abc import Iterator

import grpc

from beehive import Clock
from edged.probes import health
from edged.probes.errors import NetworkError
from edged.probes.http1 import MAX_HEAD, MAX_REDIRECTS, Head, body_ends, parse_head, redirected, request
from edged.probes.targets import GrpcTarget, HttpTarget, TcpTarget

_CHUNK = 4096
_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "kube-probe/1.32"),
    ("grpc.max_receive_message_length", 16 * 1024),
)
_NOT_IN_TIME = "not in time"


class SocketNetwork:
    """See the module's docstring."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def http_get(self, target: HttpTarget, seconds: float) -> int:
        """See the contract. Redirects to the same host are followed, at most ten."""
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
        """See the contract."""
        with _problems("connect", f"{target.host}:{target.port}"):
            _connect(target.host, target.port, _Deadline(self._clock, seconds)).close()

    def grpc_serves(self, target: GrpcTarget, seconds: float) -> bool:
        """See the contract. A server without a health service does not serve."""
        address = f"ipv6:[{target.host}]" if ":" in target.host else f"ipv4:{target.host}"
        with grpc.insecure_channel(f"{address}:{target.port}", options=_CHANNEL_OPTIONS) as channel:
            check = channel.unary_unary(health.METHOD)
            try:
                answer: bytes = check(health.encode_request(target.service), timeout=seconds)
            except grpc.RpcError as error:
                raise NetworkError("check the health of", f"{target.host}:{target.port}", error.code().name) from None
        return health.says_serving(answer)

    def _get(self, target: HttpTarget, deadline: "_Deadline") -> Head:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(_connect(target.host, target.port, deadline))
            if target.scheme == "https":
                connection.settimeout(deadline.left())
                connection = stack.enter_context(_encrypted(connection, target.host))
            connection.settimeout(deadline.left())
            connection.sendall(request(target))
            return _read_answer(connection, deadline)


class _Deadline:
    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left. Raises TimeoutError when there are none."""
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError(_NOT_IN_TIME)
        return left


def _connect(host: str, port: int, deadline: _Deadline) -> socket.socket:
    """A connection to the first address of a host that takes one; the limit is for all of them together."""
    problem: OSError = ConnectionError("the host has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(deadline.left())
            connection.connect(address)
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    raise problem


def _encrypted(connection: socket.socket, host: str) -> socket.socket:
    """TLS without a look at the certificate: a container's is its own business (a kubelet's probes do the same)."""
    import ssl  # noqa: PLC0415 - only a node with such a probe pays for it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    is_name = any(letter.isalpha() for letter in host) and ":" not in host
    return context.wrap_socket(connection, server_hostname=host if is_name else None)


def _read_answer(connection: socket.socket, deadline: _Deadline) -> Head:
    """Read an answer's head and what is wanted of its body, so that the server can finish writing."""
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        if end:
            parsed = parse_head(head)
            if parsed.status >= 200:
                break
            data = body
            continue
        if len(data) > MAX_HEAD:
            raise NetworkError("read an HTTP answer", "", f"its head has more than {MAX_HEAD} bytes")
        data += _receive(connection, deadline)
    while not body_ends(parsed, body):
        try:
            body += _receive(connection, deadline)
        except ConnectionError:
            break
    return parsed


def _receive(connection: socket.socket, deadline: _Deadline) -> bytes:
    connection.settimeout(deadline.left())
    chunk = connection.recv(_CHUNK)
    if not chunk:
        raise ConnectionError("closed before the end of the answer")
    return chunk


@contextlib.contextmanager
def _problems(attempt: str, on: str) -> Iterator[None]:
    """Turns what sockets raise into a NetworkError; a host that was written badly is a UnicodeError or ValueError."""
    try:
        yield
    except TimeoutError:
        raise NetworkError(attempt, on, _NOT_IN_TIME) from None
    except (OSError, UnicodeError, OverflowError) as error:
        raise NetworkError(attempt, on, str(error)) from error
