"""Streams of nodes whose tunnel leads to another cloudcore: passed on, once, to the router of that cloudcore.

The cloudcore that is asked decides whether the user may; the other one believes it, as its certificate is a
cloudcore's. The request is a kubelet's, with the node in a header, and without the user's credentials.
"""

import contextlib
import logging
import select
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import islice
from typing import Final, NamedTuple

from beehive.clock import Clock
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.http.client import ClientExchange, ResponseHead
from beehive.http.errors import HttpError
from beehive.http.events import Receive
from beehive.http.request import Request
from beehive.http.responses import Peer, Reply, Stream, text
from beehive.message import Message
from beehive.names import ModuleName
from modules.apimachinery.errors import ApiStatusError
from modules.cloud import api_messages
from modules.cloud.apiserver.endpoints.pod_streams import NodeReplies
from modules.cloud.authentication.users import user_of_certificate
from modules.cloud.cloudstream.opening import (
    ALL_SECONDS,
    ANSWER_BYTES,
    ANSWER_SECONDS,
    CONTENT_TYPES,
    HEAD_BYTES,
    NODE_SECONDS,
    REFUSAL_BYTES,
    Upgraded,
    refusal_of,
    switched,
)
from modules.cloud.cloudstream.relay import ClientSocket
from modules.cloud.cloudstream.stream_service import check_path
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.messages import CLOUDCORES, CLOUDCORES_RESOURCE, Cloudcores
from modules.cloud.router.other_cloudcores import WITHOUT_PROOF, OtherCloudcores
from modules.cloud.router.rest_service import NODE_HEADER
from modules.streams.connect import ConnectError, passed_on

_log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 3.0
"""For a connection to a cloudcore, and as much again for its TLS."""
MOST_ASKED: Final = 8
"""Cloudcores that are asked for one node; the one to which it is connected is the first of them."""
OPENING: Final = 32
"""Streams that wait for another cloudcore's answer, at a time."""
OPENING_OF_A_NODE: Final = 8
"""Of them of one node: with a node that does not answer, its users would take the places of all others."""
_CLOUDCORES_SECONDS: Final = 5.0
_MARGIN: Final = 5.0
"""Seconds that the answer may take longer than the node's."""
_READ_BYTES: Final = 64 * 1024
_WAIT_SECONDS: Final = 3600.0
_PARALLEL: Final = 8
_CONNECTION: Final = ("connection", "upgrade")


def ask_cloudcores(hive: Hive, clock: Clock, node: str) -> Cloudcores:
    """Return the live cloudcores, and the one that has a node, with "" for all nodes; none without an answer of
    edgecontroller. Blocks.
    """
    request = Message.new(
        clock, source=api_messages.SOURCE, resource=CLOUDCORES_RESOURCE, operation=CLOUDCORES, content=node
    )
    try:
        answer = hive.request(ModuleName.EDGECONTROLLER, request, _CLOUDCORES_SECONDS).get()
        found: Cloudcores = answer.content_as(Cloudcores)
    except BeehiveError as error:
        _log.warning("which cloudcore has which node is not known: %s", error)
        return Cloudcores("", ())
    return found


class PassedStream:
    """Stream that another cloudcore has taken over, as a relay wants it (`RelayedStream`).

    Args:
        connection: to that cloudcore; closed when it cannot be used.
    """

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        self._is_ended = False
        self.failure = ""
        """Why it has ended before its time, or ""."""
        with contextlib.ExitStack() as failing:
            failing.callback(connection.close)
            self._socket = ClientSocket(connection)
            self._events = select.epoll()
            failing.callback(self._events.close)
            self._events.register(connection, select.EPOLLIN)
            failing.pop_all()

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to take, an end, or room to send."""
        return self._events.fileno()

    @property
    def is_over(self) -> bool:
        """Whether it has ended and all its data is taken."""
        return self._is_ended

    @property
    def room(self) -> int:
        """Bytes that the other cloudcore takes now: none while it has not taken the last ones."""
        if self._socket.writes:
            self._write(b"")
        return 0 if self._socket.writes else _READ_BYTES

    def receive(self, _now: float) -> bytes:
        """Return received data, b"" when none waits."""
        if self._is_ended:
            return b""
        try:
            data = self._socket.read(_READ_BYTES)
        except OSError as error:
            self.failure = f"the connection to the other cloudcore has ended: {error}"
            data = b""
        self._is_ended = data == b""
        return data or b""

    def send(self, data: bytes) -> None:
        """Send bytes; never blocks. Raise OSError when the connection has ended."""
        self._write(data)

    def close(self) -> None:
        """End it; unless it is over, the other cloudcore sees the connection break off."""
        self._events.close()
        self._connection.close()

    def _write(self, data: bytes) -> None:
        self._socket.write(data)
        self._events.modify(self._connection, select.EPOLLIN | (select.EPOLLOUT if self._socket.writes else 0))


class StreamsElsewhere:
    """Streams of nodes that have no tunnel here, requested from other cloudcores (`OtherTunnels`). Thread-safe.

    Args:
        others: reaches them; None when this cloudcore cannot prove that it is one.
        cloudcores: returns the live cloudcores and the one that has a node, with "" all nodes that they have; blocks.
        clock: for deadlines.
    """

    def __init__(self, others: OtherCloudcores | None, cloudcores: Callable[[str], Cloudcores], clock: Clock) -> None:
        self._others = others
        self._cloudcores = cloudcores
        self._clock = clock
        self._lock = threading.Lock()
        self._opening: Counter[str] = Counter()
        """How many streams of each node wait for an answer."""

    def reply(self, node: str, target: str, request: Request) -> Reply | None:
        """Return the reply of a node's server, or None if no other cloudcore has a tunnel of it.

        Args:
            node: its name.
            target: path and query, as a kubelet has them.
            request: of the client.

        Raises:
            ApiStatusError: 429, too many streams wait for other cloudcores; 503, a cloudcore that may have the tunnel
            cannot be reached; 502 and 504, it has not answered; else the other one's refusal.
        """
        answer = self._answer(node, target, request, upgrades=False)
        if answer is None:
            return None
        content_type = CONTENT_TYPES[target.partition("?")[0].strip("/").partition("/")[0]]
        return Stream(content_type, lambda peer: _pieces(answer, peer), answer.connection.close)

    def upgraded(self, node: str, target: str, request: Request) -> Upgraded | None:
        """As `reply`, for a request whose protocol is to change."""
        answer = self._answer(node, target, request, upgrades=True)
        if answer is None:
            return None
        return Upgraded(switched(answer.head), answer.exchange.rest, PassedStream(answer.connection))

    def _answer(self, node: str, target: str, request: Request, *, upgrades: bool) -> "_Answer | None":
        until = self._clock.monotonic() + ANSWER_SECONDS + _MARGIN
        wanted = _wanted(target, request, until, upgrades=upgrades)
        with self._place(node):
            return self._first_answer(self._cloudcores(node), node, wanted)

    @contextlib.contextmanager
    def _place(self, node: str) -> Iterator[None]:
        """Take a place among the streams that wait. Raise ApiStatusError, 429, if there is none."""
        with self._lock:
            if self._opening[node] >= OPENING_OF_A_NODE or self._opening.total() >= OPENING:
                why = f"too many streams wait for other cloudcores already, at most {OPENING_OF_A_NODE} of a node"
                raise ApiStatusError(429, f"{why}: try again soon")
            self._opening[node] += 1
        try:
            yield
        finally:
            with self._lock:
                self._opening[node] -= 1
                self._opening += Counter()  # without nodes of which none waits

    def gather(self, nodes: Iterable[str], target: str, took: Callable[[str, bytes], object]) -> list[str] | None:
        """Ask for a path of the servers of those nodes that other cloudcores have, a few at a time; return the ones
        without an answer in time, or None if others have none or are not reached from here.

        Args:
            nodes: their names.
            target: path and query.
            took: called with the name and the answer of each node that answers, on the calling thread.
        """
        if self._others is None:
            return None
        known = self._cloudcores("")
        elsewhere = known.elsewhere()
        wanted = [node for node in nodes if node in elsewhere]
        if not wanted:
            return None
        late: list[str] = []
        end = self._clock.monotonic() + ALL_SECONDS
        with ThreadPoolExecutor(_PARALLEL, "cloudstream/gather") as threads:
            bodies = threads.map(lambda node: self._whole(known, node, target, end), wanted)
            for node, body in zip(wanted, bodies, strict=True):
                if body is None:
                    late.append(node)
                else:
                    took(node, body)
        return late

    def _whole(self, known: Cloudcores, node: str, target: str, end: float) -> bytes | None:
        """Return the whole answer of a node, or None if it does not come before the end."""
        until = min(self._clock.monotonic() + NODE_SECONDS, end)
        try:
            answer = self._first_answer(known, node, _Wanted(target, (), upgrades=False, until=until))
            if answer is None:
                return None
            with contextlib.closing(answer.connection):
                body = answer.exchange.read_body(answer.receive, ANSWER_BYTES + 1)
        except (ApiStatusError, HttpError, OSError) as error:
            _log.info("node %s is not asked for %s at another cloudcore: %s", node, target, error)
            return None
        return body if len(body) <= ANSWER_BYTES else None

    def _first_answer(self, known: Cloudcores, node: str, wanted: "_Wanted") -> "_Answer | None":
        """Return the answer of the cloudcore that has the node's tunnel: the one to which it is connected, or another
        one, if a load balancer has led its two connections apart. None if there is none.
        """
        holder = known.elsewhere().get(node, "")
        if not known.own:
            raise _refused(node, "which cloudcore has it is not known, as edgecontroller has not answered: try again")
        if self._others is None:
            if not holder:
                return None
            raise _refused(node, f"{_named(holder, holder)}: ask that one ({WITHOUT_PROOF} pass streams on)")
        others = (each for each in known.alive if each not in (known.own, holder) and self._others.router_of(each))
        failed: ApiStatusError | None = None
        for cloudcore in islice((*filter(None, [holder]), *others), MOST_ASKED):
            left = wanted.until - self._clock.monotonic()
            if left <= 0:
                raise failed or ApiStatusError(504, f"node {node}: no other cloudcore has answered in time")
            try:
                connection = self._others.connect(cloudcore, self._clock, min(CONNECT_SECONDS, left / 2))
            except OSError as error:
                why = f"{_named(cloudcore, holder)} cannot be reached from here: {error.strerror or error}"
                failed = failed or _refused(node, why)
                continue
            with contextlib.ExitStack() as undone:
                undone.callback(connection.close)
                answer = self._ask(cloudcore, connection, node, wanted)
                if answer.head.status != HTTPStatus.MISDIRECTED_REQUEST:
                    self._check(answer, wanted)
                    undone.pop_all()
                    return answer
        if failed is not None:
            raise failed
        return None

    def _ask(self, cloudcore: str, connection: ssl.SSLSocket, node: str, wanted: "_Wanted") -> "_Answer":
        """Send the request, and return the beginning of the answer."""
        exchange = ClientExchange(HEAD_BYTES)
        receive = _receiver(connection, wanted.until, self._clock)
        headers = [("Host", cloudcore), (NODE_HEADER, node), *wanted.headers]
        try:
            connection.settimeout(CONNECT_SECONDS)
            connection.sendall(exchange.request(wanted.method, wanted.target, headers))
            return _Answer(cloudcore, connection, exchange, exchange.read_head(receive), receive)
        except TimeoutError as error:
            raise ApiStatusError(504, f"cloudcore {cloudcore} has not answered for node {node} in time") from error
        except (HttpError, OSError) as error:
            why = f"cloudcore {cloudcore} has sent no answer for node {node} that can be read: {error}"
            raise ApiStatusError(502, why) from error

    def _check(self, answer: "_Answer", wanted: "_Wanted") -> None:
        """Raise the error for an answer that is not the wanted one."""
        if answer.head.status == (HTTPStatus.SWITCHING_PROTOCOLS if wanted.upgrades else HTTPStatus.OK):
            return
        try:
            body = answer.exchange.read_body(answer.receive, REFUSAL_BYTES)[:REFUSAL_BYTES]
        except (HttpError, OSError):
            body = b""
        raise refusal_of(f"cloudcore {answer.cloudcore}", answer.head.status, body)


class _Wanted(NamedTuple):
    """A request for another cloudcore."""

    target: str
    headers: tuple[tuple[str, str], ...]
    upgrades: bool
    until: float
    """When the answer must have begun, in monotonic seconds, whichever cloudcore gives it."""
    method: str = "GET"


class _Answer(NamedTuple):
    """The beginning of another cloudcore's answer."""

    cloudcore: str
    connection: ssl.SSLSocket
    exchange: ClientExchange
    head: ResponseHead
    receive: Receive


class ReceivedStreams:
    """The service of streams that other cloudcores pass on, of nodes with a tunnel here; it passes none on
    (`PassedStreams`).

    Args:
        tunnels: of the nodes.
        nodes: opens streams in these tunnels only.
    """

    def __init__(self, tunnels: Tunnels, nodes: NodeReplies) -> None:
        self._tunnels = tunnels
        self._nodes = nodes

    def reply(self, node: str, request: Request) -> Reply:
        """Return the reply to a kubelet's request; errors are text, 421 if the node has no tunnel here."""
        try:
            check_path(request)
            if not self._tunnels.has(node):
                raise ApiStatusError(HTTPStatus.MISDIRECTED_REQUEST, "the node has no stream tunnel to this cloudcore")
            user = user_of_certificate(request.certificate)
            _log.info("%s passes on a request for %s of node %s", user.name if user else "", request.path[:253], node)
            return self._nodes.reply(node, request.target, request)
        except ApiStatusError as error:
            return text(error.code, f"{error.message}\n")


def _wanted(target: str, request: Request, until: float, *, upgrades: bool) -> _Wanted:
    """Return the request as the other cloudcore gets it. Raise ApiStatusError, 400, if its headers cannot be sent."""
    try:
        headers = passed_on(request.headers)
    except ConnectError as error:
        raise ApiStatusError(400, str(error)) from error
    if not upgrades:
        headers = tuple(each for each in headers if each[0].lower() not in _CONNECTION)
    method = request.method if upgrades else "GET"
    return _Wanted(target, headers, upgrades, until, method)


def _named(cloudcore: str, holder: str) -> str:
    return f"cloudcore {cloudcore}" + (", to which it is connected," if cloudcore == holder else "")


def _refused(node: str, why: str) -> ApiStatusError:
    return ApiStatusError(503, f"node {node} has no stream tunnel to this cloudcore, and {why}")


def _receiver(connection: ssl.SSLSocket, deadline: float, clock: Clock) -> Receive:
    """Return a function that waits for the next bytes, until the deadline: then it raises TimeoutError."""

    def receive() -> bytes:
        left = deadline - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        return connection.recv(_READ_BYTES)

    return receive


def _pieces(answer: _Answer, peer: Peer) -> Generator[bytes, None, None]:
    """Yield the body of an answer; raise ConnectionAbortedError when it breaks off."""
    connection = answer.connection
    connection.settimeout(0.0)
    is_left = False

    def receive() -> bytes:
        nonlocal is_left
        while True:
            try:
                return connection.recv(_READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                if peer.gone_within(_WAIT_SECONDS, connection.fileno()):
                    is_left = True
                    return b""

    try:
        while piece := answer.exchange.read_pieces(receive)[0]:
            yield piece
    except (HttpError, OSError) as error:
        if not is_left:
            _log.warning("cloudcore %s: a stream breaks off: %s", answer.cloudcore, error)
            raise ConnectionAbortedError(str(error)) from error
