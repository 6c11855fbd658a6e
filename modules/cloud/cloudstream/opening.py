"""Requests for a node's server, answered over its tunnel.

Only after `101 Switching Protocols` do bytes of the node reach the client as they came. Any other answer would leave a
client, or a proxy before it, with a connection that it takes for the API server's and uses again: the node would read
the next request with its credentials, and answer it (CVE-2018-1002105).
"""

import logging
import re
import select
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qs, quote

import msgspec

from beehive.clock import Clock
from beehive.http.browser_guard import is_sent_by_another_site
from beehive.http.client import ClientExchange, ResponseHead
from beehive.http.errors import HttpError
from beehive.http.request import Request
from beehive.http.responses import Peer, Reply, Stream, Takeover
from beehive.http.upgraded_end import UpgradedEnd
from beehive.on_failure import on_failure
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath
from modules.cloud.cloudstream.errors import TooManyStreamsError, TunnelError
from modules.cloud.cloudstream.pod_connection import UPGRADE, pod_connection
from modules.cloud.cloudstream.proxying import proxied
from modules.cloud.cloudstream.relay import RelayedStream, relay
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnel import OWN
from modules.cloud.cloudstream.tunnels import NOT_SERVED, Tunnels
from modules.streams.connect import ConnectError, StreamRequest, passed_on
from modules.streams.frames import FrameType
from modules.streams.waiting import MakePoll, new_poll

_log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 2.0
"""Seconds to wait for a log's first bytes before the response begins: a followed log may be silent for long."""
ERROR_SECONDS: Final = 0.1
"""For the end of a stream that has begun with a short text: it may be an error's."""
_LONGEST_ERROR: Final = 4096
_STATUS: Final = re.compile(r"\bstatus ([45][0-9]{2})$")
"""The status in the reason of our nodes' end of a stream that their server has refused."""
_WAIT_SECONDS: Final = 3600.0
_HEAD_SECONDS: Final = 30.0
"""Seconds until a client must have received the head of the response."""
_KINDS: Final = {
    "containerLogs": FrameType.LOGS,
    "exec": FrameType.EXEC,
    "attach": FrameType.ATTACH,
    "portForward": FrameType.EXEC,
    "metrics": FrameType.METRICS,
    "stats": FrameType.METRICS,
    "edgecore": FrameType.METRICS,
    "pods": FrameType.METRICS,
    "runningpods": FrameType.METRICS,
}
"""Types of frames, by the first part of the path. KubeEdge has no type for port forwarding; the node takes the path."""
_UPGRADES: Final = (FrameType.EXEC, FrameType.ATTACH)
_TRUE: Final = ("true", "1", "t", "T", "TRUE", "True")
"""A true value in a query, as Go's `strconv.ParseBool` reads it."""
_LOG: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_JSON: Final = "application/json"
CONTENT_TYPES: Final = {"containerLogs": _LOG, "metrics": _METRICS, "stats": _JSON, "edgecore": _JSON,
                        "pods": _JSON, "runningpods": _JSON}  # fmt: skip

ANSWER_SECONDS: Final = 30.0
"""Seconds until a node must answer: its container runtime makes the streaming server ready meanwhile."""
HEAD_BYTES: Final = 16 * 1024
REFUSAL_BYTES: Final = 4096
"""Bytes of a refusal's text that are passed on."""
_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of all responses together: any number of them may have a status below 200."""
_PASSED: Final = frozenset(
    {
        "sec-websocket-accept",
        "sec-websocket-extensions",
        "sec-websocket-protocol",
        "upgrade",
        "x-stream-protocol-version",
    }
)
"""Headers that the client's end of the new protocol reads."""

AT_ONCE: Final = 32
"""Nodes that are asked at a time."""
NODE_SECONDS: Final = 5.0
"""For the whole answer of a node."""
ALL_SECONDS: Final = 20.0
"""For all answers; nodes that were not asked by then are left out."""
ANSWER_BYTES: Final = 1024 * 1024
"""The longest answer: the statistics of 110 pods have about 150 kB."""


class Upgraded(NamedTuple):
    """An upgrade that the node has granted."""

    head: bytes
    """The response for the client."""
    rest: bytes
    """The first bytes of the new protocol."""
    stream: RelayedStream
    """Of all others."""


def read_upgrade(node: str, stream: TunnelStream, protocol: str, clock: Clock) -> Upgraded:
    """Return the upgrade that a node has granted; blocks.

    Args:
        node: its name, for errors.
        stream: of the request.
        protocol: the client's header `Upgrade`.
        clock: for the deadline.

    Raises:
        ApiStatusError: the status and the beginning of the text of the node's refusal, 400 to 599; 502 for
            another answer, 504 without an answer.
    """
    exchange = ClientExchange(HEAD_BYTES)
    deadline = clock.monotonic() + ANSWER_SECONDS

    received = 0

    def receive() -> bytes:
        nonlocal received
        if received > _ANSWER_BYTES:
            raise HttpError(HTTPStatus.BAD_GATEWAY, "it is too long")
        while (left := deadline - clock.monotonic()) > 0:
            data = stream.receive(clock.monotonic())
            if data or stream.is_over:
                received += len(data)
                return data
            poll = select.poll()
            poll.register(stream, select.POLLIN)
            poll.poll(left * 1000)
        raise ApiStatusError(HTTPStatus.GATEWAY_TIMEOUT, no_answer(node))

    try:
        exchange.request("GET", "/", [("Host", node), ("Connection", "Upgrade"), ("Upgrade", protocol)])
        head = exchange.read_head(receive)
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return Upgraded(switched(head), exchange.rest, stream)
        body = exchange.read_body(receive, REFUSAL_BYTES)[:REFUSAL_BYTES]
    except HttpError as error:
        why = stream.failure or f"its answer cannot be read: {error.reason}"
        raise ApiStatusError(HTTPStatus.BAD_GATEWAY, f"node {node}: {why}") from error
    raise refusal_of(f"node {node}", head.status, body)


def refusal_of(who: str, status: int, body: bytes) -> ApiStatusError:
    """Return the error for a response that is not the wanted one: 502 if it is no refusal either."""
    if not HTTPStatus.BAD_REQUEST <= status < 600:
        why = f"{who} has not switched to the stream's protocol: status {status}"
        return ApiStatusError(HTTPStatus.BAD_GATEWAY, why)
    text = body.decode(errors="replace").strip()
    return ApiStatusError(status, text or f"{who} has refused with status {status}")


def no_answer(node: str) -> str:
    """Return the words for a node that does not answer."""
    why = "it or its network is too busy, or what is asked for takes longer"
    hint = "on KubeEdge's edgecore: does its server (port 10350) listen?"
    return f"node {node}: its tunnel is open, but no answer has begun within {ANSWER_SECONDS:g} s: {why}; {hint}"


def switched(head: ResponseHead) -> bytes:
    """Return the head of the response with the headers that a client needs, and no others."""
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade"]
    lines += [f"{name.title()}: {value}" for name, value in head.fields if name in _PASSED]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class _Answer:
    """The part of a node's answer that has come so far."""

    def __init__(self, node: str, stream: TunnelStream, deadline: float) -> None:
        self.node = node
        self.stream = stream
        self.deadline = deadline
        self._parts: list[bytes] = []
        self._size = 0

    def read(self, now: float) -> bool:
        """Take the received bytes, and return whether to wait for more."""
        while data := self.stream.receive(now):
            self._parts.append(data)
            self._size += len(data)
            if self._size > ANSWER_BYTES:
                _log.warning("node %s: its answer has more than %d bytes", self.node, ANSWER_BYTES)
                return False
        return not self.stream.is_over and now < self.deadline

    def whole(self) -> bytes | None:
        """Return the answer if it is one."""
        if self._size > ANSWER_BYTES or not self.stream.is_over or self.stream.failure:
            return None
        return b"".join(self._parts)


class OtherTunnels(Protocol):
    """The nodes whose tunnels are at other cloudcores."""

    def reply(self, node: str, target: str, request: Request) -> Reply | None:
        """Return the reply of a node's server, or None if no other cloudcore has a tunnel of it. Raise ApiStatusError
        if it is refused, or a cloudcore that may have it cannot be reached.
        """

    def upgraded(self, node: str, target: str, request: Request) -> Upgraded | None:
        """As `reply`, for an upgrade."""

    def gather(self, nodes: Iterable[str], target: str, took: Callable[[str, bytes], object]) -> list[str] | None:
        """As `NodeStreams.gather`, of those nodes that other cloudcores have; None if they have none."""


class Gathering:
    """A query of nodes for a path of their server. On the calling thread, which it keeps for `ALL_SECONDS` at most.

    Args:
        tunnels: of all nodes.
        clock: for the deadlines.
        target: path and query.
        took: called with the name and the answer of each node that answers.
    """

    def __init__(self, tunnels: Tunnels, clock: Clock, target: str, took: Callable[[str, bytes], object]) -> None:
        self._tunnels = tunnels
        self._clock = clock
        self._target = target
        self._took = took
        self._poll = select.poll()
        self._open: dict[int, _Answer] = {}
        self._late: list[str] = []

    def run(self, nodes: Iterable[str]) -> list[str]:
        """Ask these nodes, and return the ones without an answer in time; nodes without a tunnel here are left out."""
        waiting = deque(node for node in nodes if self._tunnels.has(node))
        end = self._clock.monotonic() + ALL_SECONDS
        try:
            while (waiting or self._open) and self._clock.monotonic() < end:
                while waiting and len(self._open) < AT_ONCE:
                    self._ask(waiting.popleft())
                self._read_answers(end)
        finally:
            for descriptor in list(self._open):
                self._close(descriptor)
        return self._late

    def _ask(self, node: str) -> None:
        try:
            stream = self._tunnels.open(node, FrameType.METRICS, StreamRequest(0, self._target))
        except (TunnelError, ConnectError) as error:
            _log.info("node %s is not asked for %s: %s", node, self._target, error)
            return
        self._open[stream.fileno()] = _Answer(node, stream, self._clock.monotonic() + NODE_SECONDS)
        self._poll.register(stream, select.POLLIN)

    def _read_answers(self, end: float) -> None:
        """Wait for the next words, and read them."""
        if not self._open:
            return
        first = min(end, *(answer.deadline for answer in self._open.values()))
        self._poll.poll(max(0.0, first - self._clock.monotonic()) * 1000 + 1)
        now = self._clock.monotonic()
        for descriptor, answer in list(self._open.items()):
            if not answer.read(now):
                whole = answer.whole()
                self._close(descriptor)
                if whole is not None:
                    self._took(answer.node, whole)

    def _close(self, descriptor: int) -> None:
        answer = self._open.pop(descriptor)
        if not answer.stream.is_over:
            self._late.append(answer.node)
        self._poll.unregister(descriptor)
        answer.stream.close()


class NodeStreams:
    """The answers to requests for a node's server over its tunnel; on the threads of HTTP servers.

    Args:
        tunnels: of all nodes.
        clock: for idle times.
        others: reaches nodes whose tunnel is elsewhere; None: they are not reached.
        make_poll: for the threads that wait for an answer.
    """

    def __init__(
        self, tunnels: Tunnels, clock: Clock, others: OtherTunnels | None = None, make_poll: MakePoll = new_poll
    ) -> None:
        self._make_poll = make_poll
        self._tunnels = tunnels
        self._clock = clock
        self._others = others

    def reply(self, node: str, target: str, request: Request) -> Reply:
        """Return the reply of a node's server.

        Args:
            node: its name.
            target: path and query for its server, as a kubelet has them.
            request: of the client.

        Raises:
            ApiStatusError: 400, the request cannot be sent, or is no upgrade; 503, the node has no tunnel here; 429, it
                has too many streams; else the status of its server's refusal, 502 for an answer that is no
                refusal and no upgrade, or 504 without an answer.
        """
        path = target.partition("?")[0].strip("/").partition("/")[0]
        kind = _KINDS[path]
        if kind in _UPGRADES:
            _check_upgrade(request)
            upgraded = self._upgraded(node, kind, target, request)
            stream = upgraded.stream
            return Takeover(lambda client: self._hand_over(client, upgraded, request), stream.close)
        if self._others is not None and not self._tunnels.has(node):
            passed = self._others.reply(node, target, request)
            if passed is not None:
                return passed
        stream = self._open(node, kind, target, request)
        follows = parse_qs(target.partition("?")[2]).get("follow", [""])[-1] in _TRUE
        return self._stream(node, stream, CONTENT_TYPES[path], follows=follows)

    def proxy(self, node: str, port: PodPort, path: ProxiedPath, request: Request) -> Reply:
        """Return the reply of a pod (`PodServers`). The node connects to its port, by port forwarding.

        Raises:
            ApiStatusError: 503, the node or the pod cannot be reached; for an upgrade also the pod's refusal.
        """
        target = f"/portForward/{quote(port.namespace, '')}/{quote(port.pod, '')}"
        wanted = msgspec.structs.replace(request, method="POST", headers=UPGRADE, rest=b"", body=b"")

        def connect() -> RelayedStream:
            upgraded = self._upgraded(node, FrameType.EXEC, target, wanted)
            with on_failure(upgraded.stream.close):
                try:
                    return pod_connection(upgraded.stream, upgraded.rest, port)
                except OSError as error:
                    raise ApiStatusError(503, f"node {node}: {error}") from error

        return proxied(connect, port, path, request, self._clock)

    def gather(self, nodes: Iterable[str], target: str, took: Callable[[str, bytes], object]) -> list[str]:
        """Ask nodes for a path of their servers, within 20 s, and return the ones without an answer in time.

        Args:
            nodes: their names.
            target: path and query; of the statistics.
            took: called with the name and the answer of each node that answers.

        Raises:
            ApiStatusError: 503; no tunnels are served here.
        """
        wanted = list(nodes)
        late: list[str] | None = None
        if self._others is not None:
            late = self._others.gather([node for node in wanted if not self._tunnels.has(node)], target, took)
        if late is None and not self._tunnels.port:
            raise ApiStatusError(503, NOT_SERVED)
        return (late or []) + Gathering(self._tunnels, self._clock, target, took).run(wanted)

    def _open(self, node: str, kind: FrameType, target: str, request: Request) -> TunnelStream:
        try:
            headers = passed_on(request.headers)
            wanted = StreamRequest(0, target, headers, request.method if kind in _UPGRADES else "GET")
            return self._tunnels.open(node, kind, wanted, request.client or OWN)
        except ConnectError as error:
            raise ApiStatusError(400, str(error)) from error
        except TooManyStreamsError as error:
            raise ApiStatusError(429, str(error)) from error
        except TunnelError as error:
            raise ApiStatusError(503, str(error)) from error

    def _upgraded(self, node: str, kind: FrameType, target: str, request: Request) -> Upgraded:
        """Return an upgrade that the node, or another cloudcore, has granted. Raise ApiStatusError without one."""
        if self._others is not None and not self._tunnels.has(node):
            passed = self._others.upgraded(node, target, request)
            if passed is not None:
                return passed
        stream = self._open(node, kind, target, request)
        with on_failure(stream.close):
            return read_upgrade(node, stream, request.header("upgrade"), self._clock)

    def _hand_over(self, client: socket.socket, upgraded: Upgraded, request: Request) -> None:
        client.settimeout(_HEAD_SECONDS)
        client.sendall(upgraded.head + upgraded.rest)
        end = UpgradedEnd(request.header("upgrade"))
        end.receive(upgraded.rest)
        relay(client, upgraded.stream, request.rest, self._clock, end)

    def _stream(self, node: str, stream: TunnelStream, content_type: str, *, follows: bool) -> Stream:
        """Return a response in pieces. An error of the node's server is one here, too, if the node reports it: the
        tunnel has no place for a status, and KubeEdge's nodes send the error's text as though it were the log.

        Args:
            node: its name.
            stream: the stream.
            content_type: of the response.
            follows: whether it is a log that is followed, which may say nothing for long. Anything else that has not
                begun in time never does: KubeEdge's nodes send nothing when their own server does not listen.
        """
        with ExitStack() as unless_begun:
            unless_begun.callback(stream.close)
            first = self._first(stream, FIRST_SECONDS if follows else ANSWER_SECONDS)
            if not first and not follows and not stream.is_over:
                raise ApiStatusError(HTTPStatus.GATEWAY_TIMEOUT, no_answer(node))
            if first and len(first) < _LONGEST_ERROR:
                self._wait(stream, ERROR_SECONDS)
            if stream.is_over and stream.failure:
                raise _error(node, first, stream.failure)
            unless_begun.pop_all()
        return Stream(content_type, lambda peer: self._pieces(node, stream, first, peer), stream.close)

    def _first(self, stream: TunnelStream, seconds: float) -> bytes:
        """Wait for the first bytes of a stream, or its end, and return them."""
        deadline = self._clock.monotonic() + seconds
        while True:
            now = self._clock.monotonic()
            data = stream.receive(now)
            if data or stream.is_over or now >= deadline:
                return data
            self._wait(stream, deadline - now)

    def _wait(self, stream: TunnelStream, seconds: float) -> None:
        """Wait for something to take, or the end."""
        poll = self._make_poll()
        poll.register(stream, select.POLLIN)
        poll.poll(seconds * 1000)

    def _pieces(self, node: str, stream: TunnelStream, first: bytes, peer: Peer) -> Generator[bytes, None, None]:
        if first:
            yield first
        while True:
            data = stream.receive(self._clock.monotonic())
            if data:
                yield data
            elif stream.is_over:
                break
            elif peer.gone_within(_WAIT_SECONDS, stream.fileno()):
                return
        if stream.failure:
            _log.warning("node %s: a stream breaks off: %s", node, stream.failure)
            raise ConnectionAbortedError(stream.failure)


def _check_upgrade(request: Request) -> None:
    """Raise ApiStatusError if a request is no upgrade, or comes from a web page of another site."""
    if not request.header("upgrade"):
        raise ApiStatusError(400, "Upgrade request required")
    if is_sent_by_another_site(request):
        raise ApiStatusError(403, "pages of browsers are not served")


def _error(node: str, body: bytes, failure: str) -> ApiStatusError:
    """Return the error for a stream that has failed before it had begun."""
    found = _STATUS.search(failure)
    why = body.decode(errors="replace").strip() or f"node {node}: {failure}"
    return ApiStatusError(int(found[1]) if found else 502, why)
